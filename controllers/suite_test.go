// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/livesched/app"
	"github.com/livesched/livesched/test/e2e/framework"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

func TestMain(m *testing.M) {
	// Before all tests: what one has started may still log while the next one runs.
	framework.LogToGinkgo()
	os.Exit(m.Run())
}

// The suite applies profiles and policies to a real API server with livesched running, and checks
// their status and where pods are bound. Every spec has its own livesched and begins without
// profiles, policies, nodes or pods.
func TestControllers(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(time.Minute)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyPollingInterval(40 * time.Millisecond) // each poll is a request
	SetDefaultConsistentlyDuration(500 * time.Millisecond)
	SetDefaultConsistentlyPollingInterval(100 * time.Millisecond)
	RunSpecs(t, "Profiles and policies on a real API server")
}

var (
	cluster *testcluster.Cluster
	k8s     client.Client
)

var _ = BeforeSuite(func(ctx context.Context) {
	var err error
	cluster, err = testcluster.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
	k8s = cluster.Client
}, NodeTimeout(5*time.Minute))

var _ = AfterSuite(func() {
	if cluster != nil {
		Expect(cluster.Stop()).To(Succeed())
	}
})

// The cluster is cleared after the spec's livesched was stopped: a leader would create its lease
// again.
var _ = BeforeEach(func() {
	DeferCleanup(func(ctx context.Context) { Expect(cluster.Clear(ctx)).To(Succeed()) })
})

// patience bounds how long a livesched may take to stop.
const patience = time.Minute

// start runs a livesched until the end of the spec.
func start(change ...func(*app.Options)) *testcluster.Running {
	GinkgoHelper()
	options := testcluster.Options()
	for _, f := range change {
		f(options)
	}
	run, err := cluster.Run(context.Background(), GinkgoLogr, options)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(run.Stop(patience)).To(Succeed()) })
	return run
}

// Objects with a spec in YAML.
var profile, policy = objects.Profile, objects.Policy

func create(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, object := range objects {
		Expect(k8s.Create(ctx, object)).To(Succeed())
	}
}

// change replaces the spec of an object with another one, in YAML. Unlike an apply it retries if
// livesched writes status at the same time.
func change[T interface {
	*v1alpha1.SchedulerProfile | *v1alpha1.SchedulingPolicy
	client.Object
}](ctx context.Context, object T, spec string) {
	GinkgoHelper()
	Expect(testcluster.Update(ctx, k8s, object, func(object T) {
		switch object := any(object).(type) {
		case *v1alpha1.SchedulerProfile:
			object.Spec = profile(object.Name, spec).Spec
		case *v1alpha1.SchedulingPolicy:
			object.Spec = policy(object.Name, spec).Spec
		}
	})).To(Succeed())
}

// expectProfile waits until the conditions of a profile's current generation match, and returns it.
func expectProfile(ctx context.Context, name string,
	conditions ...gomegatypes.GomegaMatcher) *v1alpha1.SchedulerProfile {
	GinkgoHelper()
	p := &v1alpha1.SchedulerProfile{}
	Eventually(func(g Gomega) {
		p = &v1alpha1.SchedulerProfile{}
		g.Expect(k8s.Get(ctx, client.ObjectKey{Name: name}, p)).To(Succeed())
		g.Expect(p.Status.ObservedGeneration).To(Equal(p.Generation))
		for _, condition := range conditions {
			g.Expect(p.Status.Conditions).To(condition)
		}
	}).WithContext(ctx).Should(Succeed())
	for _, c := range p.Status.Conditions {
		Expect(c.ObservedGeneration).To(Equal(p.Generation), "condition %s", c.Type)
	}
	return p
}

// expectOn waits until a profile runs with a generation of a policy, and returns it. The policy's
// own status may name the profile earlier: if the cache was behind, the profile's status is written
// in a second attempt.
func expectOn(ctx context.Context, name, policy string, generation int64) *v1alpha1.SchedulerProfile {
	GinkgoHelper()
	var p *v1alpha1.SchedulerProfile
	Eventually(func() *v1alpha1.ActivePolicy {
		p = expectProfile(ctx, name, isProgrammed)
		return p.Status.Active.Policy
	}).WithContext(ctx).Should(Equal(&v1alpha1.ActivePolicy{Name: policy, Generation: generation}))
	return p
}

// expectPolicy is expectProfile for a policy.
func expectPolicy(ctx context.Context, name string,
	conditions ...gomegatypes.GomegaMatcher) *v1alpha1.SchedulingPolicy {
	GinkgoHelper()
	p := &v1alpha1.SchedulingPolicy{}
	Eventually(func(g Gomega) {
		p = &v1alpha1.SchedulingPolicy{}
		g.Expect(k8s.Get(ctx, client.ObjectKey{Name: name}, p)).To(Succeed())
		g.Expect(p.Status.ObservedGeneration).To(Equal(p.Generation))
		for _, condition := range conditions {
			g.Expect(p.Status.Conditions).To(condition)
		}
	}).WithContext(ctx).Should(Succeed())
	for _, c := range p.Status.Conditions {
		Expect(c.ObservedGeneration).To(Equal(p.Generation), "condition %s", c.Type)
	}
	return p
}

// haveCondition matches conditions that include one of this type, status and reason, with these
// words in its message.
func haveCondition(kind string, status metav1.ConditionStatus, reason string,
	words ...string) gomegatypes.GomegaMatcher {
	message := make([]gomegatypes.GomegaMatcher, 0, len(words))
	for _, word := range words {
		message = append(message, ContainSubstring(word))
	}
	wanted := fmt.Sprintf("%s=%s, reason %s", kind, status, reason)
	return WithTransform(func(conditions []metav1.Condition) metav1.Condition {
		if c := meta.FindStatusCondition(conditions, kind); c != nil {
			return *c
		}
		return metav1.Condition{}
	}, And(
		WithTransform(func(c metav1.Condition) string {
			return fmt.Sprintf("%s=%s, reason %s", c.Type, c.Status, c.Reason)
		}, Equal(wanted)),
		WithTransform(func(c metav1.Condition) string { return c.Message }, And(message...)),
	))
}

// isAccepted and isProgrammed match the conditions of an object that is accepted or programmed.
var (
	isAccepted   = haveCondition(v1alpha1.ConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted)
	isProgrammed = haveCondition(v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed)
)

// isRefused matches the conditions of an object that is not accepted, for a given reason and with
// given words.
func isRefused(reason string, words ...string) gomegatypes.GomegaMatcher {
	return haveCondition(v1alpha1.ConditionAccepted, metav1.ConditionFalse, reason, words...)
}

// keepsLastGood and neverRan match the conditions of an object that is not accepted: its last good
// spec stays active, or there is none.
var (
	keepsLastGood = haveCondition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonKeptLastGood)
	neverRan      = haveCondition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonInvalid)
)

// The two nodes of most specs have the same size; one is half full, one empty.
const (
	busy = "busy"
	idle = "idle"
)

// createNodes creates the two nodes, and a pod of another scheduler that fills one of them.
func createNodes(ctx context.Context) {
	GinkgoHelper()
	filler := objects.Pod("default", "filler", "somebody-else", "4", "8Gi")
	filler.Spec.NodeName = busy
	create(ctx, objects.Node(busy, "8", "16Gi", nil), objects.Node(idle, "8", "16Gi", nil), filler)
}

// createPod creates a small pod.
func createPod(ctx context.Context, name, schedulerName string) *corev1.Pod {
	GinkgoHelper()
	pod := objects.Pod("default", name, schedulerName, "100m", "200Mi")
	create(ctx, pod)
	return pod
}

// expectBound waits until a pod is bound, and returns the node.
func expectBound(ctx context.Context, pod *corev1.Pod) string {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		g.Expect(pod.Spec.NodeName).NotTo(BeEmpty())
	}).WithContext(ctx).Should(Succeed())
	return pod.Spec.NodeName
}

// expectPending makes sure that a pod is not bound.
func expectPending(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Consistently(func(g Gomega) {
		g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		g.Expect(pod.Spec.NodeName).To(BeEmpty())
	}).WithContext(ctx).Should(Succeed())
}

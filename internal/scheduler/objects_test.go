// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler_test

import (
	"context"
	"fmt"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

// Objects with a spec in YAML.
var profile, policy = objects.Profile, objects.Policy

// quickRetries is a policy whose pods are retried without much of a back-off.
func quickRetries() *v1alpha1.SchedulingPolicy {
	return policy("default", "{podInitialBackoff: 1ms, podMaxBackoff: 1ms}")
}

func create(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, object := range objects {
		Expect(k8s.Create(ctx, object)).To(Succeed())
	}
	for _, object := range objects {
		switch object := object.(type) {
		case *corev1.Node:
			expectKnown(ctx, object.Name)
		case *v1alpha1.SchedulingPolicy:
			expectCached(ctx, object)
		}
	}
}

// createFor creates objects that the end of a spec does not clear by itself.
func createFor(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	create(ctx, objects...)
	DeferCleanup(func(ctx context.Context) {
		for _, object := range objects {
			Expect(client.IgnoreNotFound(k8s.Delete(ctx, object))).To(Succeed())
		}
	})
}

// update changes an object that is in the API server.
func update[T client.Object](ctx context.Context, object T, change func(T)) {
	GinkgoHelper()
	Expect(testcluster.Update(ctx, k8s, object, change)).To(Succeed())
}

// respec gives a profile another spec, in YAML, and waits until it decides.
func respec(ctx context.Context, name, spec string) *v1alpha1.SchedulerProfile {
	GinkgoHelper()
	next := profile(name, spec).Spec
	update(ctx, &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: name}}, func(p *v1alpha1.SchedulerProfile) { p.Spec = next })
	return expectProgrammed(ctx, name)
}

// createProfile creates a profile and waits until it decides.
func createProfile(ctx context.Context, name, spec string) *v1alpha1.SchedulerProfile {
	GinkgoHelper()
	create(ctx, profile(name, spec))
	return expectProgrammed(ctx, name)
}

// expectProgrammed waits until the present generation of a profile decides.
func expectProgrammed(ctx context.Context, name string) *v1alpha1.SchedulerProfile {
	GinkgoHelper()
	return expectCondition(ctx, name, v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed)
}

// expectCondition waits until the status of a profile speaks of its present generation and has a
// condition.
func expectCondition(ctx context.Context, name, kind string, status metav1.ConditionStatus, reason string) *v1alpha1.SchedulerProfile {
	GinkgoHelper()
	p := &v1alpha1.SchedulerProfile{}
	Eventually(func(g Gomega) {
		g.Expect(k8s.Get(ctx, client.ObjectKey{Name: name}, p)).To(Succeed())
		g.Expect(p.Status.ObservedGeneration).To(Equal(p.Generation))
		condition := meta.FindStatusCondition(p.Status.Conditions, kind)
		g.Expect(condition).NotTo(BeNil())
		g.Expect(*condition).To(And(HaveField("Status", status), HaveField("Reason", reason), HaveField("ObservedGeneration", p.Generation)))
	}).WithContext(ctx).Should(Succeed())
	return p
}

// nodes creates nodes with room for 4 CPUs and 8 GiB each.
func nodes(ctx context.Context, names ...string) {
	GinkgoHelper()
	for _, name := range names {
		create(ctx, objects.Node(name, "4", "8Gi", nil))
	}
}

// expectKnown waits until the running livesched has seen a node, which comes to it by another way
// than pods do: a pod that is created afterwards finds it.
func expectKnown(ctx context.Context, name string) {
	GinkgoHelper()
	if running == nil {
		return
	}
	Eventually(func() bool {
		info := running.Scheduler.Cache().Dump().Nodes[name]
		return info != nil && info.Node() != nil
	}).WithContext(ctx).Should(BeTrue(), "node %s is to be known", name)
}

// expectCached waits until the running livesched reads an object as it is, or newer, for those that
// come to it by another way than what depends on them: a profile that is created after its policy
// is built with it, rather than once more when the policy has come, too.
func expectCached(ctx context.Context, object client.Object) {
	GinkgoHelper()
	if running == nil {
		return
	}
	Eventually(func(g Gomega) {
		cached := object.DeepCopyObject().(client.Object)
		g.Expect(running.GetCache().Get(ctx, client.ObjectKeyFromObject(object), cached)).To(Succeed())
		g.Expect(versionOf(g, cached)).To(BeNumerically(">=", versionOf(g, object)))
	}).WithContext(ctx).Should(Succeed(), "%s is to be known", object.GetName())
}

// versionOf is the version of an object, which is later than that of what was written before.
func versionOf(g Gomega, object client.Object) uint64 {
	version, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	g.Expect(err).NotTo(HaveOccurred())
	return version
}

// podOf makes a small pod that asks for a scheduler.
func podOf(schedulerName, name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := objects.Pod(metav1.NamespaceDefault, name, schedulerName, "100m", "100Mi")
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0)
	for _, change := range changes {
		change(pod)
	}
	return pod
}

// createPod creates a pod that podOf made.
func createPod(ctx context.Context, schedulerName, name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	GinkgoHelper()
	pod := podOf(schedulerName, name, changes...)
	create(ctx, pod)
	return pod
}

func cpu(quantity string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources = objects.Pod("", "", "", quantity, "100Mi").Spec.Containers[0].Resources
	}
}

func labelled(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { metav1.SetMetaDataLabel(&pod.ObjectMeta, key, value) }
}

func on(nodeName string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.NodeName = nodeName }
}

func selecting(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{key: value} }
}

func gated(pod *corev1.Pod) {
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
}

// witnessed has a pod stay, once it is deleted, until it is released.
func witnessed(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/witness"} }

func release(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	if err := k8s.Get(ctx, client.ObjectKeyFromObject(pod), pod); !apierrors.IsNotFound(err) {
		update(ctx, pod, func(pod *corev1.Pod) { pod.Finalizers = nil })
	}
}

func prioritized(class string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.PriorityClassName = class }
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

// expectPending makes sure that nobody binds a pod.
func expectPending(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Consistently(func(g Gomega) {
		g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		g.Expect(pod.Spec.NodeName).To(BeEmpty())
	}).WithContext(ctx).Should(Succeed())
}

// expectUnscheduled waits until the status of a pod says why it is not scheduled.
func expectUnscheduled(ctx context.Context, pod *corev1.Pod, reason string, message gomegatypes.GomegaMatcher) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		g.Expect(pod.Status.Conditions).To(ContainElement(And(
			HaveField("Type", corev1.PodScheduled),
			HaveField("Status", corev1.ConditionFalse),
			HaveField("Reason", reason),
			HaveField("Message", message),
		)))
	}).WithContext(ctx).Should(Succeed())
}

// expectUnschedulable waits until the status of a pod says that it fits nowhere, and why.
func expectUnschedulable(ctx context.Context, pod *corev1.Pod, message string) {
	GinkgoHelper()
	expectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable, Equal(message))
}

// eventsOf lists the Events about a pod with a reason.
func eventsOf(ctx context.Context, pod *corev1.Pod, reason string) []eventsv1.Event {
	GinkgoHelper()
	var list eventsv1.EventList
	Expect(k8s.List(ctx, &list, client.InNamespace(pod.Namespace))).To(Succeed())
	var found []eventsv1.Event
	for _, event := range list.Items {
		if event.Regarding.UID == pod.UID && event.Reason == reason {
			found = append(found, event)
		}
	}
	return found
}

// expectEvent waits for an Event about a pod and returns it.
func expectEvent(ctx context.Context, pod *corev1.Pod, reason string, note gomegatypes.GomegaMatcher) eventsv1.Event {
	GinkgoHelper()
	var found []eventsv1.Event
	Eventually(func(g Gomega) {
		found = eventsOf(ctx, pod, reason)
		g.Expect(found).To(ContainElement(HaveField("Note", note), &found))
	}).WithContext(ctx).Should(Succeed())
	return found[0]
}

// names numbers pods and nodes.
func names(prefix string, n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("%s-%d", prefix, i))
	}
	return all
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/app"
	liveschedapp "github.com/livesched/livesched/cmd/livesched/app"
	"github.com/livesched/livesched/internal/history"
	"github.com/livesched/livesched/internal/scheduler/capture"
	"github.com/livesched/livesched/internal/scheduler/replay"
	"github.com/livesched/livesched/test/controlplane/process"
	"github.com/livesched/livesched/test/e2e/framework"
	"github.com/livesched/livesched/test/testcluster"
)

func TestMain(m *testing.M) {
	// Before all tests: what one has started may still log while the next one runs.
	framework.LogToGinkgo()
	os.Exit(m.Run())
}

// The suite runs the command line and livesched against a real API server.
func TestKubectlLivesched(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(time.Minute)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyPollingInterval(40 * time.Millisecond) // each poll is a request
	RunSpecs(t, "kubectl livesched")
}

// kept is the namespace of the revisions that the specs record.
const kept = "kept"

var (
	cluster *testcluster.Cluster
	k8s     client.Client
)

var _ = BeforeSuite(func(ctx context.Context) {
	var err error
	cluster, err = testcluster.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
	k8s = cluster.Client
	for _, name := range []string{kept, "livesched-system"} {
		Expect(k8s.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	}
}, NodeTimeout(5*time.Minute))

var _ = AfterSuite(func() {
	if cluster != nil {
		Expect(cluster.Stop()).To(Succeed())
	}
})

var _ = AfterEach(func(ctx context.Context) {
	Expect(cluster.Clear(ctx)).To(Succeed())
})

// startLivesched runs livesched for the rest of a spec and returns the address of its metrics.
func startLivesched(ctx context.Context, change ...func(*liveschedapp.Options)) (metrics string) {
	GinkgoHelper()
	port, err := process.FreePort()
	Expect(err).NotTo(HaveOccurred())
	o := testcluster.Options()
	o.MetricsBindAddress = net.JoinHostPort("", strconv.Itoa(port))
	for _, f := range change {
		f(o)
	}
	running, err := cluster.Run(context.WithoutCancel(ctx), klog.Background(), o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(running.Stop(time.Minute)).To(Succeed()) })
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// outcome is the result of a command.
type outcome struct {
	code        int
	out, errOut string
}

func openReplay(ctx context.Context, snapshot *capture.Snapshot) (app.Replay, error) {
	return replay.Open(ctx, snapshot)
}

// kubectl runs the command line.
func kubectl(ctx context.Context, args ...string) outcome {
	var out, errOut bytes.Buffer
	args = append([]string{"--kubeconfig", cluster.Kubeconfig()}, args...)
	code := app.Run(ctx, args, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut},
		openReplay)
	return outcome{code: code, out: out.String(), errOut: errOut.String()}
}

func file(text string) string {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), "file.yaml")
	Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
	return path
}

func profile(name string, change ...func(*v1alpha1.SchedulerProfileSpec)) *v1alpha1.SchedulerProfile {
	p := &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, f := range change {
		f(&p.Spec)
	}
	return p
}

func weight(plugin string, weight int32) func(*v1alpha1.SchedulerProfileSpec) {
	return func(spec *v1alpha1.SchedulerProfileSpec) {
		spec.Plugins = &v1alpha1.Plugins{
			Score: v1alpha1.PluginSet{Enabled: []v1alpha1.Plugin{{Name: plugin, Weight: &weight}}}}
	}
}

func policy(name string, parallelism int32) *v1alpha1.SchedulingPolicy {
	return &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.SchedulingPolicySpec{Parallelism: &parallelism}}
}

func create(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, object := range objects {
		Expect(k8s.Create(ctx, object)).To(Succeed())
	}
}

// expectProgrammed waits until the current spec is programmed.
func expectProgrammed(ctx context.Context, p *v1alpha1.SchedulerProfile) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
		condition := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionProgrammed)
		g.Expect(condition).NotTo(BeNil())
		g.Expect(condition.ObservedGeneration).To(Equal(p.Generation))
		g.Expect(condition.Status).To(Equal(metav1.ConditionTrue), condition.Message)
	}).WithContext(ctx).Should(Succeed())
}

// change changes a profile and waits until the new spec is programmed.
func change(ctx context.Context, p *v1alpha1.SchedulerProfile, f func(*v1alpha1.SchedulerProfileSpec)) {
	GinkgoHelper()
	Eventually(func() error {
		if err := k8s.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		f(&p.Spec)
		return k8s.Update(ctx, p)
	}).WithContext(ctx).Should(Succeed())
	expectProgrammed(ctx, p)
}

// record stores the active spec of a profile as a revision.
func record(ctx context.Context, p *v1alpha1.SchedulerProfile, number int64) {
	GinkgoHelper()
	expectProgrammed(ctx, p)
	r := &history.Revision{
		Number: number, Kind: history.KindProfile, ObjectName: p.Name, UID: p.UID, Generation: p.Generation,
		Hash: p.Status.Active.Revision, Profile: &p.Spec,
	}
	if active := p.Status.Active.Policy; active != nil {
		policy := &v1alpha1.SchedulingPolicy{}
		Expect(k8s.Get(ctx, client.ObjectKey{Name: active.Name}, policy)).To(Succeed())
		r.Policy = &history.Policy{Name: policy.Name, UID: policy.UID, Generation: policy.Generation, Spec: policy.Spec}
	}
	store(ctx, r)
}

// revisionOf returns a revision of a profile on the built-in defaults, which was never active.
func revisionOf(p *v1alpha1.SchedulerProfile, number int64,
	change ...func(*v1alpha1.SchedulerProfileSpec)) *history.Revision {
	spec := p.Spec.DeepCopy()
	for _, f := range change {
		f(spec)
	}
	return &history.Revision{Number: number, Kind: history.KindProfile, ObjectName: p.Name, UID: p.UID,
		Generation: p.Generation, Hash: "none", Profile: spec}
}

// recordPolicy stores a policy as a revision.
func recordPolicy(ctx context.Context, p *v1alpha1.SchedulingPolicy, number int64) {
	GinkgoHelper()
	hash, err := history.Hash(&p.Spec)
	Expect(err).NotTo(HaveOccurred())
	store(ctx, &history.Revision{
		Number: number, Kind: history.KindPolicy, ObjectName: p.Name, UID: p.UID, Generation: p.Generation, Hash: hash,
		Policy: &history.Policy{Name: p.Name, UID: p.UID, Generation: p.Generation, Spec: p.Spec},
	})
}

func store(ctx context.Context, r *history.Revision) {
	GinkgoHelper()
	object, err := history.Encode(r, kept)
	Expect(err).NotTo(HaveOccurred())
	Expect(k8s.Create(ctx, object)).To(Succeed())
	DeferCleanup(func(ctx context.Context) { Expect(k8s.Delete(ctx, object)).To(Succeed()) })
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package reload

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

func TestReload(t *testing.T) {
	RegisterFailHandler(Fail)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(5 * time.Millisecond)
	RunSpecs(t, "Reloads at every moment of a pod")
}

var (
	cluster *testcluster.Cluster
	k8s     client.Client
	run     *testcluster.Running
	// plugins are the instances of the suite's plugin.
	plugins *holders
	// bound counts for each pod how often it was bound.
	bound *testcluster.Bindings
)

var _ = BeforeSuite(func(ctx context.Context) {
	logger := zap.New(zap.WriteTo(GinkgoWriter), zap.UseDevMode(true))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	var err error
	cluster, err = testcluster.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
	k8s = cluster.Client
	bound, err = cluster.WatchBindings(ctx)
	Expect(err).NotTo(HaveOccurred())

	plugins = newHolders()
	options := testcluster.Options()
	options.OutOfTree = framework.Registry{holding: plugins.build, byName: newByName, byNameDown: newByNameDown}
	run, err = cluster.Run(context.Background(), GinkgoLogr, options)
	Expect(err).NotTo(HaveOccurred())
	Eventually(run.Scheduler.Ready()).Should(BeClosed())
}, NodeTimeout(5*time.Minute))

var _ = AfterSuite(func() {
	if run != nil {
		Expect(run.Stop(time.Minute)).To(Succeed())
	}
	if cluster != nil {
		bound.Stop() // the API server waits for watches
		Expect(cluster.Stop()).To(Succeed())
	}
})

// footprint is what a livesched holds that must not grow with the number of reloads.
type footprint struct{ generations, handlers, goroutines, series int }

// seriesPrefix is what the scheduler names of the specs begin with.
const seriesPrefix = "reload-"

func takeFootprint() footprint {
	f := footprint{generations: run.Scheduler.Store().Alive(), handlers: run.Informers.Handlers(), goroutines: runtime.NumGoroutine()}
	families, err := legacyregistry.DefaultGatherer.Gather()
	Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "profile" && strings.HasPrefix(label.GetValue(), seriesPrefix) {
					f.series++
				}
			}
		}
	}
	return f
}

// Objects with a spec in YAML.
var profile, policy = objects.Profile, objects.Policy

// create creates objects until the end of the spec.
func create(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, object := range objects {
		Expect(k8s.Create(ctx, object)).To(Succeed())
		DeferCleanup(remove, object)
	}
}

// remove deletes an object at once, if it is still there.
func remove(ctx context.Context, object client.Object) {
	GinkgoHelper()
	if err := k8s.Get(ctx, client.ObjectKeyFromObject(object), object); apierrors.IsNotFound(err) {
		return
	}
	if len(object.GetFinalizers()) > 0 { // which protect volumes that are in use
		update(ctx, object, func(object client.Object) { object.SetFinalizers(nil) })
	}
	Expect(client.IgnoreNotFound(k8s.Delete(ctx, object, client.GracePeriodSeconds(0)))).To(Succeed())
}

func update[T client.Object](ctx context.Context, object T, change func(T)) {
	GinkgoHelper()
	Expect(testcluster.Update(ctx, k8s, object, change)).To(Succeed())
}

// respec gives a profile another spec.
func respec(ctx context.Context, name, spec string) {
	GinkgoHelper()
	next := profile(name, spec).Spec
	update(ctx, profile(name, ""), func(p *v1alpha1.SchedulerProfile) { p.Spec = next })
}

// expectCondition waits until the status of a profile speaks of its present generation and has a
// condition.
func expectCondition(ctx context.Context, name, kind string, status metav1.ConditionStatus, reason string) {
	GinkgoHelper()
	p := profile(name, "")
	Eventually(func(g Gomega) {
		g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
		condition := meta.FindStatusCondition(p.Status.Conditions, kind)
		g.Expect(condition).NotTo(BeNil())
		g.Expect(*condition).To(And(HaveField("Status", status), HaveField("Reason", reason), HaveField("ObservedGeneration", p.Generation)))
	}).WithContext(ctx).Should(Succeed())
}

func expectProgrammed(ctx context.Context, name string) {
	GinkgoHelper()
	expectCondition(ctx, name, v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed)
}

// createNode creates a node with 4 CPUs and waits until livesched knows it: it comes by another way
// than pods do, and there may have been one of that name.
func createNode(ctx context.Context, name string) {
	GinkgoHelper()
	node := objects.Node(name, "4", "8Gi", nil)
	create(ctx, node)
	Eventually(func() bool {
		info := run.Scheduler.Cache().Dump().Nodes[name]
		return info != nil && info.Node() != nil && info.Node().UID == node.UID
	}).WithContext(ctx).Should(BeTrue())
}

// podOn makes a pod that fits on one node only.
func podOn(node, name, schedulerName, cpu string) *corev1.Pod {
	pod := objects.Pod(metav1.NamespaceDefault, name, schedulerName, cpu, "10Mi")
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0)
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	return pod
}

func expectBound(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		g.Expect(pod.Spec.NodeName).NotTo(BeEmpty())
	}).WithContext(ctx).Should(Succeed())
}

// expectUnscheduled waits until a pod says that it fits nowhere.
func expectUnscheduled(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		g.Expect(pod.Status.Conditions).To(ContainElement(And(HaveField("Type", corev1.PodScheduled), HaveField("Reason", corev1.PodReasonUnschedulable))))
	}).WithContext(ctx).Should(Succeed())
}

// expectTold waits for an Event about a pod.
func expectTold(ctx context.Context, pod *corev1.Pod, words string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var list eventsv1.EventList
		g.Expect(k8s.List(ctx, &list, client.InNamespace(pod.Namespace))).To(Succeed())
		g.Expect(list.Items).To(ContainElement(And(
			HaveField("Regarding.UID", pod.UID), HaveField("Reason", "FailedScheduling"), HaveField("Note", ContainSubstring(words)))))
	}).WithContext(ctx).Should(Succeed())
}

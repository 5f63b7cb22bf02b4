// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package reload

import (
	"context"
	"runtime"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/framework"
	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

func TestReload(t *testing.T) {
	RegisterFailHandler(Fail)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	RunSpecs(t, "Reloads at every moment of a pod")
}

var (
	cluster *testcluster.Cluster
	k8s     client.Client
	run     *testcluster.Running
	// plugins are the instances of the suite's plugin.
	plugins *holders
	// bound counts the bindings of each pod.
	bound *testcluster.Bindings
)

var _ = BeforeSuite(func(ctx context.Context) {
	LogToGinkgo()
	var err error
	cluster, err = testcluster.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
	k8s = cluster.Client
	Attach(cluster)
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

// footprint counts what a livesched holds that must not grow with the number of reloads.
type footprint struct{ generations, handlers, goroutines, series int }

// seriesPrefix is the prefix of the specs' scheduler names.
const seriesPrefix = "reload-"

func takeFootprint() footprint {
	return footprint{
		generations: run.Scheduler.Store().Alive(),
		handlers:    run.Informers.Handlers(),
		goroutines:  runtime.NumGoroutine(),
		series:      ProfileSeries(seriesPrefix),
	}
}

// create creates objects until the end of the spec.
func create(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, object := range objects {
		Expect(k8s.Create(ctx, object)).To(Succeed())
		DeferCleanup(remove, object)
	}
}

// remove deletes an object if it still exists, without a grace period.
func remove(ctx context.Context, object client.Object) {
	GinkgoHelper()
	if err := k8s.Get(ctx, client.ObjectKeyFromObject(object), object); apierrors.IsNotFound(err) {
		return
	}
	if len(object.GetFinalizers()) > 0 { // they protect volumes that are in use
		Update(ctx, object, func(object client.Object) { object.SetFinalizers(nil) })
	}
	Expect(client.IgnoreNotFound(k8s.Delete(ctx, object, client.GracePeriodSeconds(0)))).To(Succeed())
}

// respec gives a profile another spec.
func respec(ctx context.Context, name, spec string) {
	GinkgoHelper()
	next := Profile(name, spec).Spec
	Update(ctx, Profile(name, ""), func(p *v1alpha1.SchedulerProfile) { p.Spec = next })
}

// createNode creates a node with 4 CPUs and waits until livesched has it: nodes and pods arrive
// independently, and an earlier node may have had the name.
func createNode(ctx context.Context, name string) {
	GinkgoHelper()
	node := Node(name, "4", "8Gi", nil)
	create(ctx, node)
	Eventually(func() bool {
		info := run.Parts().Cache.Dump().Nodes[name]
		return info != nil && info.Node() != nil && info.Node().UID == node.UID
	}).WithContext(ctx).Should(BeTrue())
}

// podOn returns a pod that fits on one node only.
func podOn(node, name, schedulerName, cpu string) *corev1.Pod {
	pod := PodOf(schedulerName, name, Selecting(corev1.LabelHostname, node))
	pod.Spec.Containers[0].Resources = Requests(cpu, "10Mi")
	return pod
}

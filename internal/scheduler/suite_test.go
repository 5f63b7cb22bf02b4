// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/livesched/livesched/cmd/livesched/app"
	"github.com/livesched/livesched/test/leaks"
	"github.com/livesched/livesched/test/testcluster"
)

// The suite has livesched schedule pods on a real API server, by profiles that are custom
// resources, and looks at where the pods go and what becomes of those that go nowhere. Every spec
// begins without nodes or pods, and has a livesched of its own, without profiles and policies,
// unless many share one (see stage).
func TestScheduler(t *testing.T) {
	RegisterFailHandler(Fail)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(time.Minute) // which only bounds failures
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	SetDefaultConsistentlyDuration(400 * time.Millisecond)
	SetDefaultConsistentlyPollingInterval(20 * time.Millisecond)
	RunSpecs(t, "Scheduling on a real API server")
}

var (
	cluster *testcluster.Cluster
	k8s     client.Client
	// before ignores the goroutines that there were before the suite: whatever livesched started
	// has to end with it.
	before goleak.Option
	// running is the livesched that startFor has started, if there is one.
	running *testcluster.Running
	// scratch is a directory for what specs share.
	scratch string
	// shared says that the running livesched and its profiles are those of many specs; see stage.
	shared bool
)

var _ = BeforeSuite(func(ctx context.Context) {
	logger := zap.New(zap.WriteTo(GinkgoWriter), zap.UseDevMode(true))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	before = goleak.IgnoreCurrent()
	scratch = GinkgoT().TempDir()
	var err error
	cluster, err = testcluster.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
	k8s = cluster.Client
}, NodeTimeout(2*time.Minute))

var _ = AfterSuite(func() {
	if cluster != nil {
		Expect(cluster.Stop()).To(Succeed())
		// The workqueue of a controller that is stopped while it hands out an item never finds out.
		Expect(leaks.Find(before, goleak.IgnoreAnyFunction("sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue.(*priorityqueue[...]).handleReadyItems"))).To(Succeed())
	}
})

var _ = AfterEach(func(ctx context.Context) {
	if shared {
		Expect(cluster.ClearPlaces(ctx)).To(Succeed())
		return
	}
	Expect(cluster.Clear(ctx)).To(Succeed())
})

// stopsWithin only bounds failures; endsWithin is what is promised.
const stopsWithin = time.Minute

// start runs a livesched until the end of the spec, with the plugins of scripts.
func start(change ...func(*app.Options)) *testcluster.Running {
	GinkgoHelper()
	return startFor(cluster.Config, change...)
}

// startFor is start for an API server that is reached in another way.
func startFor(config *rest.Config, change ...func(*app.Options)) *testcluster.Running {
	GinkgoHelper()
	run := startUnstopped(config, change...)
	DeferCleanup(func() {
		running = nil
		Expect(run.Stop(stopsWithin)).To(Succeed())
	})
	Eventually(run.Scheduler.Ready()).Should(BeClosed())
	running = run
	return run
}

// startUnstopped is startFor for specs that stop what they start.
func startUnstopped(config *rest.Config, change ...func(*app.Options)) *testcluster.Running {
	GinkgoHelper()
	options := testcluster.Options()
	for _, f := range change {
		f(options)
	}
	run, err := testcluster.RunFor(context.Background(), GinkgoLogr, config, options)
	Expect(err).NotTo(HaveOccurred())
	return run
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package framework is what the suites that schedule pods on a real API server share: one control
// plane for each suite, livesched in the test's process, and the words in which specs say what they
// create and what they expect.
//
//	suite.go          Run, and Start for a livesched of one spec
//	stage.go          a livesched that the specs of a container share
//	kubescheduler.go  kube-scheduler in the place of livesched, to check what specs expect
//	create.go         objects come and change
//	expect.go         what becomes of them
//	script.go         out-of-tree plugins that do what a spec tells them (actor.go)
//	faults.go         an API server that fails, or is slow
//
// The suites import it, Ginkgo, Gomega and test/objects with a dot. All of it is for the goroutine
// that runs a spec, unless it says otherwise.
package framework

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

var (
	// Cluster is the API server of the suite.
	Cluster *testcluster.Cluster
	// K8s reads and writes without a cache.
	K8s client.Client
	// Running is the livesched that Start has started, nil if there is none.
	Running *testcluster.Running
	// Scratch is a directory that lasts as long as the suite.
	Scratch string

	// shared is set while the specs of a container share a livesched with its profiles; see Stage.
	shared bool
)

// Run runs the specs of a suite. Every spec begins without nodes or pods, and has a livesched of
// its own, without profiles and policies, unless many share one (see Stage). Whatever livesched
// starts has to end with it: the suite fails if goroutines are left.
func Run(t *testing.T, description string) {
	RegisterFailHandler(Fail)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(time.Minute) // which only bounds failures
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	SetDefaultConsistentlyDuration(400 * time.Millisecond)
	SetDefaultConsistentlyPollingInterval(20 * time.Millisecond)
	var before goleak.Option
	BeforeSuite(func(ctx context.Context) {
		before = goleak.IgnoreCurrent()
		startCluster(ctx)
	}, NodeTimeout(2*time.Minute))
	AfterSuite(func() { stopCluster(before) })
	AfterEach(func(ctx context.Context) {
		if shared {
			Expect(Cluster.ClearPlaces(ctx)).To(Succeed())
		} else {
			Expect(Cluster.Clear(ctx)).To(Succeed())
		}
	})
	RunSpecs(t, description)
}

func startCluster(ctx context.Context) {
	logger := zap.New(zap.WriteTo(GinkgoWriter), zap.UseDevMode(true))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	Scratch = GinkgoT().TempDir()
	cluster, err := testcluster.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
	Attach(cluster)
}

func stopCluster(before goleak.Option) {
	if Cluster == nil {
		return
	}
	Expect(Cluster.Stop()).To(Succeed())
	// The workqueue of a controller that is stopped while it hands out an item never finds out.
	const workqueue = "sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue.(*priorityqueue[...]).handleReadyItems"
	Expect(leaks.Find(before, goleak.IgnoreAnyFunction(workqueue))).To(Succeed())
}

// Attach lets a suite that starts its cluster by itself use the words of this package.
func Attach(cluster *testcluster.Cluster) { Cluster, K8s = cluster, cluster.Client }

const (
	// StopsWithin bounds failures to stop.
	StopsWithin = time.Minute
	// EndsWithin is what a process that is told to stop promises.
	EndsWithin = 10 * time.Second
)

// Start runs a livesched until the end of the spec.
func Start(change ...func(*app.Options)) *testcluster.Running {
	GinkgoHelper()
	return StartFor(Cluster.Config, change...)
}

// StartFor is Start for an API server that is reached in another way.
func StartFor(config *rest.Config, change ...func(*app.Options)) *testcluster.Running {
	GinkgoHelper()
	run := StartUnstopped(config, change...)
	DeferCleanup(func() {
		Running = nil
		Expect(run.Stop(StopsWithin)).To(Succeed())
	})
	Eventually(run.Scheduler.Ready()).Should(BeClosed())
	Running = run
	return run
}

// StartUnstopped is StartFor for specs that stop what they start.
func StartUnstopped(config *rest.Config, change ...func(*app.Options)) *testcluster.Running {
	GinkgoHelper()
	options := testcluster.Options()
	for _, f := range change {
		f(options)
	}
	run, err := testcluster.RunFor(context.Background(), GinkgoLogr, config, options)
	Expect(err).NotTo(HaveOccurred())
	return run
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package framework is shared by the suites that schedule pods on a real API server. It provides
// one control plane for each suite, livesched in the test's process, and the functions with which
// specs create objects and state expectations.
//
//	suite.go          Run, and Start for a livesched of one spec
//	stage.go          a livesched that the specs of a container share
//	kubescheduler.go  kube-scheduler in place of livesched, to check the expectations of specs
//	create.go         create and change objects
//	expect.go         expectations about objects
//	script.go         out-of-tree plugins with the behavior that a spec defines (actor.go)
//	faults.go         an API server that fails or is slow
//
// The suites import it, Ginkgo, Gomega and test/objects with a dot. Only the goroutine that runs a
// spec may use it, unless a comment states otherwise.
package framework

import (
	"context"
	"os"
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
	"github.com/livesched/livesched/test/controlplane"
	"github.com/livesched/livesched/test/leaks"
	"github.com/livesched/livesched/test/testcluster"
)

var (
	// Cluster is the API server of the suite.
	Cluster *testcluster.Cluster
	// K8s reads and writes without a cache.
	K8s client.Client
	// Running is the livesched that Start has started, or nil.
	Running *testcluster.Running

	// shared is set while the specs of a container share a livesched with its profiles; see Stage.
	shared bool
)

// Run runs the specs of a suite. Every spec begins without nodes or pods. It has a livesched of its
// own, without profiles and policies, unless several specs share one (see Stage). Every goroutine
// that livesched starts must end with livesched: the suite fails if any are left. change sets
// options of the control plane.
func Run(t *testing.T, description string, change ...func(*controlplane.Options)) {
	RegisterFailHandler(Fail)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(time.Minute)                   // this only bounds failures
	SetDefaultEventuallyPollingInterval(40 * time.Millisecond) // each poll is a request
	SetDefaultConsistentlyDuration(400 * time.Millisecond)
	SetDefaultConsistentlyPollingInterval(40 * time.Millisecond)
	var before goleak.Option
	BeforeSuite(func(ctx context.Context) {
		before = goleak.IgnoreCurrent()
		startCluster(ctx, change)
	}, NodeTimeout(2*time.Minute))
	AfterSuite(func() { StopCluster(before) })
	AfterEach(func(ctx context.Context) {
		if shared {
			Expect(Cluster.ClearPlaces(ctx)).To(Succeed())
		} else {
			Expect(Cluster.Clear(ctx)).To(Succeed())
		}
	})
	RunSpecs(t, description)
}

func startCluster(ctx context.Context, change []func(*controlplane.Options)) {
	LogToGinkgo()
	options := controlplane.Options{Progress: os.Stderr}
	for _, f := range change {
		f(&options)
	}
	cluster, err := testcluster.StartWith(ctx, options)
	Expect(err).NotTo(HaveOccurred())
	Attach(cluster)
}

// LogToGinkgo writes the log of livesched and of its libraries to GinkgoWriter.
func LogToGinkgo() {
	logger := zap.New(zap.WriteTo(GinkgoWriter), zap.UseDevMode(true))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
}

// StopCluster stops the cluster of the suite, if there is one. It fails if goroutines are left that
// did not run before the suite.
func StopCluster(before goleak.Option) {
	if Cluster == nil {
		return
	}
	Expect(Cluster.Stop()).To(Succeed())
	// If its controller is stopped while the workqueue hands out an item, this goroutine never
	// ends.
	const workqueue = "sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue.(*priorityqueue[...]).handleReadyItems"
	Expect(leaks.Find(before, goleak.IgnoreAnyFunction(workqueue))).To(Succeed())
}

// Attach lets a suite that starts its cluster itself use the functions of this package.
func Attach(cluster *testcluster.Cluster) { Cluster, K8s = cluster, podGroupClient{cluster.Client} }

const (
	// StopsWithin is the time after which a failure to stop is an error.
	StopsWithin = time.Minute
	// EndsWithin is the time in which a process ends when it is stopped, also on a busy machine:
	// it waits for plugins that hang for seven seconds.
	EndsWithin = 15 * time.Second
)

// Start runs a livesched until the end of the spec.
func Start(change ...func(*app.Options)) *testcluster.Running {
	GinkgoHelper()
	return StartFor(Cluster.Config, change...)
}

// StartFor is Start with another client configuration for the API server.
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

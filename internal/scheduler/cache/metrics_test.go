// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/livesched/livesched/test/leaks"
)

func TestMain(m *testing.M) {
	schedmetrics.Register()
	SetDefaultEventuallyTimeout(time.Minute)
	leaks.Main(m)
}

func TestMetrics(t *testing.T) {
	f := newFixture(t, newNode("a", ""), newNode("b", ""))
	clock := clocktesting.NewFakeClock(time.Now())
	f.clock = clock
	f.assume(newPod("p", "a"))
	f.must(f.AddPod(quiet, newPod("q", "a")))
	f.must(f.AddPod(quiet, newPod("r", "placeholder")))

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.Cache.Run(ctx)
	}()
	expect := func(nodes, pods, assumed int) {
		t.Helper()
		want := fmt.Sprintf("# HELP scheduler_cache_size [ALPHA] Number of nodes, pods, and assumed (bound) pods in "+
			"the scheduler cache.\n"+
			"# TYPE scheduler_cache_size gauge\nscheduler_cache_size{type=\"assumed_pods\"} %d\n"+
			"scheduler_cache_size{type=\"nodes\"} %d\nscheduler_cache_size{type=\"pods\"} %d\n", assumed, nodes, pods)
		NewWithT(t).Eventually(func() error {
			return testutil.GatherAndCompare(legacyregistry.DefaultGatherer, strings.NewReader(want),
				"scheduler_cache_size")
		}).Should(Succeed())
	}
	expect(3, 3, 1)
	NewWithT(t).Eventually(clock.HasWaiters).Should(BeTrue())
	f.must(f.ForgetPod(quiet, newPod("p", "a")))
	clock.Step(metricsPeriod)
	expect(3, 2, 0)
	cancel()
	<-ended
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"errors"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/component-base/metrics/testutil"
	fwk "k8s.io/kube-scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/scheduler/framework"
)

func (c *crowd) newTrial(dryRuns int) *Trial {
	return c.plugin.NewTrial(func(int) int { return 0 }, dryRuns)
}

func TestTrialChoosesTheSameOfEquals(t *testing.T) {
	c := newCrowd(t, 6)
	for _, node := range c.nodes {
		for range 2 {
			pod := *c.add(node, 1, "300m")
			pod.Status.StartTime = nil // as of pods that have not been started
			must(t, c.cache.UpdatePod(logr.Discard(), &pod, &pod))
		}
	}
	pod := c.pending(10)
	var first *Choice
	before, err := testutil.GetCounterMetricValue(schedmetrics.PreemptionAttempts)
	must(t, err)
	for _, class := range []uint64{0, 1} {
		for range 10 {
			trial := c.newTrial(1000)
			state := c.prepared(pod, 1)
			framework.WriteRefusals(state, &framework.Refusals{Class: class, Version: class})
			got, err := trial.Choose(c.ctx, state, pod, c.full(c.nodes))
			must(t, err)
			if first == nil {
				first = got
			}
			if got == nil || got.Node != c.nodes[0] || !slices.Equal(got.Victims, first.Victims) {
				t.Fatalf("got %+v, and %+v at first", got, first)
			}
		}
	}
	after, err := testutil.GetCounterMetricValue(schedmetrics.PreemptionAttempts)
	must(t, err)
	if after != before {
		t.Errorf("%v attempts are counted", after-before)
	}
}

func TestTrialEndsAfterSomeDryRuns(t *testing.T) {
	c := newCrowd(t, 6)
	for _, node := range c.nodes {
		c.add(node, 1, "600m")
	}
	trial := c.newTrial(9)
	pod := c.pending(10)
	choose := func() (*Choice, error) {
		state := c.prepared(pod, 0)
		framework.WriteRefusals(state, &framework.Refusals{})
		return trial.Choose(c.ctx, state, pod, c.full(c.nodes))
	}
	if choice, err := choose(); choice == nil || err != nil {
		t.Errorf("got %v, %v", choice, err)
	}
	if choice, err := choose(); choice != nil || !errors.Is(err, ErrTooManyDryRuns) || trial.MayHelp(pod) {
		t.Errorf("after more than 9 dry runs: %v, %v, may help: %t", choice, err, trial.MayHelp(pod))
	}
	if choice, err := choose(); choice != nil || err != nil {
		t.Errorf("afterwards: %v, %v", choice, err)
	}
}

func TestTrialLeavesNodesAloneThatEvictionsDoNotHelp(t *testing.T) {
	c := newCrowd(t, 3)
	for _, node := range c.nodes {
		c.add(node, 1, "600m")
	}
	trial := c.newTrial(100)
	pod := c.pending(10)
	state := c.prepared(pod, 1)
	statuses := c.full(nil)
	for _, node := range c.nodes {
		statuses.Set(node, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "tainted"))
	}
	if choice, err := trial.Choose(c.ctx, state, pod, statuses); choice != nil || err != nil {
		t.Errorf("got %v, %v", choice, err)
	}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/testutil"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	frameworkplugins "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/utils/clock"

	"github.com/livesched/livesched/internal/scheduler/framework"
)

// Upstream counts each call of PostFilter once, whatever comes of it.
func TestEachPreemptionIsCountedOnceAsUpstreamCounts(t *testing.T) {
	counted := func(attempt func()) float64 {
		t.Helper()
		before, err := testutil.GetCounterMetricValue(schedmetrics.PreemptionAttempts)
		must(t, err)
		attempt()
		after, err := testutil.GetCounterMetricValue(schedmetrics.PreemptionAttempts)
		must(t, err)
		return after - before
	}
	for _, tt := range []struct {
		name string
		// residents is the priority of the pods that fill the nodes.
		residents int32
		// gone: the informer no longer has the preemptor, so upstream's evaluator fails.
		gone bool
		want fwk.Code
	}{
		{"that succeeds", 0, false, fwk.Success},
		{"that fails on the node that was chosen", 0, true, fwk.Error},
		{"without victims", 100, false, fwk.Unschedulable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCrowd(t, 3)
			for _, node := range c.nodes {
				c.add(node, tt.residents, "600m")
			}
			pod := c.pending(10)
			if tt.gone {
				renamed := *pod
				renamed.Name = "gone"
				pod = &renamed
			}
			state := c.prepared(pod, 1)
			must(t, framework.RunDeferredPreFilter(c.ctx, state))
			upstream := counted(func() { c.plugin.DefaultPreemption.PostFilter(c.ctx, state, pod, c.full(c.nodes)) })
			got := counted(func() {
				if _, status := c.plugin.PostFilter(c.ctx, state, pod, c.full(c.nodes)); status.Code() != tt.want {
					t.Errorf("the preemption: %v", status)
				}
				c.ended()
			})
			if got != upstream || got != 1 {
				t.Errorf("counted %v times, upstream %v", got, upstream)
			}
		})
	}
}

// Upstream keeps only as many candidates that violate budgets as there should be candidates.
func TestTheBestOfAllNodesThatViolateBudgetsIsTaken(t *testing.T) {
	c := newCrowd(t, 8)
	h := &handle{environment: c.environment, Framework: c.framework}
	one := &schedconfig.DefaultPreemptionArgs{MinCandidateNodesAbsolute: 1}
	pl, err := frameworkplugins.NewInTreeRegistry()[names.DefaultPreemption](c.ctx, one, h)
	must(t, err)
	c.plugin = New(pl.(*defaultpreemption.DefaultPreemption), h, c.snapshot, c.queue.Nominator(), c.groups, c.evictor,
		c.budgets, clock.RealClock{})

	for _, namespace := range []string{namespace, "other"} {
		c.budget(namespace, &metav1.LabelSelector{}, 0)
	}
	budgets := c.allBudgets()
	for i, node := range c.nodes {
		c.add(node, int32(2+i), "600m")
	}
	pod := c.pending(100)
	for range 5 { // each starts with another node
		state := c.prepared(pod, 1)
		must(t, framework.RunDeferredPreFilter(c.ctx, state))
		statuses := c.full(c.nodes)
		potential, err := statuses.NodesForStatusCode(c.snapshot.NodeInfos(), fwk.Unschedulable)
		must(t, err)
		upstream, _, err := c.plugin.Evaluator.DryRunPreemption(c.ctx, state, pod, potential, budgets, 0, 1)
		must(t, err)
		if len(upstream) != 1 {
			t.Errorf("upstream keeps %d candidates", len(upstream))
		}
		node, _ := c.plugin.chooseNode(c.ctx, state, pod, statuses, nil)
		if node == nil || node.Node().Name != c.nodes[0] {
			t.Errorf("chosen is %v, the least important victim is on %s", node, c.nodes[0])
		}
	}
}

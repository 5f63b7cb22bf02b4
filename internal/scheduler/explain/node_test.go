// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/explain"
)

// ofNode explains a pod for a node.
func (c *cluster) ofNode(p *corev1.Pod, node string) (*v1alpha1.NodeExplanation, error) {
	c.Helper()
	k, err := c.Forker.Fork(c.Context())
	c.must(err)
	defer k.Close()
	return explain.Node(c.Context(), k, p, node)
}

func TestWhyNotThisNode(t *testing.T) {
	c := newCluster(t)
	for _, name := range []string{"best", "bound", "same"} {
		c.node(name, "web", "8", "8Gi")
	}
	c.node("small", "web", "1", "8Gi", tainted("gpu"))
	c.run(pod("other", "4", "1Gi"), "bound")
	c.run(pod("another", "4", "1Gi"), "same")
	bound := c.run(pod("it", "2", "1Gi"), "bound")
	for _, test := range []struct {
		pod  *corev1.Pod
		node string
		rank int32
		best string
	}{
		{pod("pending", "2", "1Gi"), "best", 1, "best"},
		{pod("pending", "2", "1Gi"), "same", 2, "best"},
		{pod("pending", "2", "1Gi"), "bound", 3, "best"}, // it has one pod more
		{bound, "bound", 2, "best"},
		{bound, "same", 2, "best"},
		{pod("gated", "2", "1Gi",
			func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} }), "best", 1,
			"best"},
	} {
		x, err := c.ofNode(test.pod, test.node)
		c.must(err)
		if !x.Fits || x.Refusals != nil || x.Name != test.node || x.Rank != test.rank || x.Score.Node != test.node ||
			x.Best.Node != test.best || len(x.Score.Scores) == 0 {
			t.Errorf("%s on %s: got %+v, %+v, %+v", test.pod.Name, test.node, x, x.Score, x.Best)
		}
		if x.Best.Total < x.Score.Total || (x.Rank == 1) != (x.Best.Total == x.Score.Total) {
			t.Errorf("%s on %s: the total is %d, and the best %d", test.pod.Name, test.node, x.Score.Total,
				x.Best.Total)
		}
	}

	x, err := c.ofNode(pod("pending", "2", "1Gi"), "small")
	c.must(err)
	if x.Fits || x.Score != nil || x.Rank != 0 || x.Best == nil || x.Best.Node != "best" || len(x.Refusals) != 2 {
		t.Fatalf("on a node that refuses it: got %+v", x)
	}
	if r := x.Refusals[0]; r.Reason != v1alpha1.ReasonUntoleratedTaint || r.Detail != "taint gpu:NoSchedule" {
		t.Errorf("got %+v", r)
	}
	if short := x.Refusals[1].ShortBy; len(short) != 1 || short[0].Quantity.String() != "1" {
		t.Errorf("got %+v", short)
	}

	x, err = c.ofNode(pod("pending", "2", "1Gi", claiming("nope")), "best")
	c.must(err)
	if x.Fits || x.Best != nil || len(x.Refusals) == 0 || x.Refusals[0].Reason != v1alpha1.ReasonClaimNotFound {
		t.Errorf("a pod that no node may have: got %+v", x)
	}

	var none *explain.NoNodeError
	if _, err := c.ofNode(bound, "gone"); !errors.As(err, &none) || none.Name != "gone" {
		t.Errorf("got %v", err)
	}
	x, err = c.ofNode(pod("theirs", "1", "1Gi", func(p *corev1.Pod) { p.Spec.SchedulerName = "theirs" }), "best")
	if x != nil || err != nil {
		t.Errorf("of another scheduler: got %+v, %v", x, err)
	}
}

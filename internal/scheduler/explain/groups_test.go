// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/explain"
)

func TestPoolsWithEqualRowsAreMerged(t *testing.T) {
	c := newCluster(t)
	for i := range 60 {
		c.node(fmt.Sprintf("n%02d", i), fmt.Sprintf("pool-%02d", i/2%20), "4", "8Gi") // 20 pools of 2 or 4 nodes
	}
	c.run(pod("other", "2", "1Gi"), "n05")
	x := c.explain(explain.Pending{Pod: pod("p", "6", "1Gi")})
	if len(x.Pending.Groups) != 1 {
		t.Fatalf("got %d groups", len(x.Pending.Groups))
	}
	g := x.Pending.Groups[0]
	if g.Nodes != 60 || len(g.Pools) != 20 || g.Pools[0] != "pool-00" || g.Pools[19] != "pool-19" || g.Partial {
		t.Errorf("got %+v", g)
	}
	short := []v1alpha1.Shortage{{Resource: "cpu", Quantity: resource.MustParse("2"), Nodes: 59,
		Most: ptr.To(resource.MustParse("4")), Node: g.Example}}
	if diff := cmp.Diff(short, g.Refusals[0].ShortBy,
		cmp.Comparer(func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })); diff != "" {
		t.Error(diff)
	}
}

func TestTheClosestNodesComeFirst(t *testing.T) {
	c := newCluster(t)
	for i := range 9 {
		c.node(fmt.Sprintf("far-%d", i), "far", "1", "8Gi", tainted("db"))
	}
	for i := range 5 {
		c.node(fmt.Sprintf("small-%d", i), "small", "1", "8Gi")
	}
	c.node("tainted", "gpu", "8", "8Gi", tainted("gpu"))
	c.node("full", "web", "8", "8Gi")
	c.run(pod("much", "6", "1Gi"), "full")
	c.node("other", "other", "8", "8Gi", func(n *corev1.Node) { n.Labels["arch"] = "arm64" })
	p := pod("p", "4", "1Gi",
		requiring(corev1.NodeSelectorTerm{
			MatchExpressions: []corev1.NodeSelectorRequirement{expression("arch", corev1.NodeSelectorOpDoesNotExist)}}))
	x := c.explain(explain.Pending{Pod: p})
	want := []string{
		"1 InsufficientResource: ", // other pods could end
		"1 UntoleratedTaint: taint gpu:NoSchedule", "5 InsufficientResource: ",
		"9 UntoleratedTaint: taint db:NoSchedule, InsufficientResource: ",
		"1 NodeAffinityMismatch: does not match !arch",
	}
	if diff := cmp.Diff(want, detailsOf(x)); diff != "" {
		t.Error(diff)
	}
	if last := x.Pending.Groups[4]; last.Partial || last.Example != "other" {
		t.Errorf("got %+v", last)
	}
}

func TestGroupsAreLimited(t *testing.T) {
	c := newCluster(t)
	for i := range 70 {
		c.node(fmt.Sprintf("n%02d", i), "x", "4", "8Gi", tainted(fmt.Sprintf("tenant-%02d", i)))
	}
	c.node("labelled", "x", "4", "8Gi", tainted("db"), func(n *corev1.Node) { n.Labels["arch"] = "arm64" })
	p := pod("p", "1", "1Gi",
		requiring(corev1.NodeSelectorTerm{
			MatchExpressions: []corev1.NodeSelectorRequirement{expression("arch", corev1.NodeSelectorOpDoesNotExist)}}))
	groups := c.explain(explain.Pending{Pod: p}).Pending.Groups
	if len(groups) != 51 {
		t.Fatalf("got %d groups", len(groups))
	}
	nodes := 0
	for _, g := range groups {
		nodes += int(g.Nodes)
	}
	if rest := groups[49]; nodes != 71 || rest.Nodes != 21 || !rest.Partial || len(rest.Refusals) != 1 ||
		rest.Refusals[0].Reason != v1alpha1.ReasonUntoleratedTaint || rest.Refusals[0].Detail != "" {
		t.Errorf("got %d nodes, and %+v", nodes, rest)
	}
	if excluded := groups[50]; excluded.Nodes != 1 || !excluded.Partial ||
		excluded.Refusals[0].Reason != v1alpha1.ReasonNodeAffinityMismatch {
		t.Errorf("got %+v", excluded)
	}
}

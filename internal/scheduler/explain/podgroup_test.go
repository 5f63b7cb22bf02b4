// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/explain"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/test/sidebyside"
)

// rack is the key of a label of nodes.
const rack = "example.com/rack"

// inRack puts a node into a rack.
func inRack(name string) func(*corev1.Node) {
	return func(node *corev1.Node) { node.Labels[rack] = name }
}

// groupOf returns a group of pods that request 1 CPU each.
func groupOf(pods, needed int, topology podgroup.Topology) *explain.Group {
	g := &explain.Group{
		Group:  podgroup.Group{Key: podgroup.Key{Namespace: "default", Name: "train"}, MinMember: needed, Topology: topology},
		Needed: needed,
	}
	for i := range pods {
		g.Pods = append(g.Pods, pod(fmt.Sprintf("train-%03d", i), "1", "1Gi"))
	}
	return g
}

// fits explains the first pod of a group.
func (c *cluster) fits(g *explain.Group) *v1alpha1.PodGroupFit {
	c.Helper()
	x := c.explain(explain.Pending{Pod: g.Pods[0], Group: g, Wait: &queue.Wait{
		PodState: queue.PodState{Place: queue.Unschedulable},
		Group:    &queue.GroupWait{Key: g.Key, Known: true, Needed: g.Needed, Ready: len(g.Pods)},
	}})
	if x.Pending.PodGroup == nil {
		c.Fatalf("got no group: %s: %s", x.Verdict, x.Message)
	}
	return x.Pending.PodGroup
}

func TestHowManyPodsOfAGroupFit(t *testing.T) {
	required, preferred := podgroup.Topology{Required: rack}, podgroup.Topology{Preferred: []string{rack}}
	for _, test := range []struct {
		name   string
		pods   int
		needed int
		change func(g *explain.Group)
		want   v1alpha1.PodGroupFit
	}{
		{"the whole cluster, where other pods run", 12, 12, func(*explain.Group) {},
			v1alpha1.PodGroupFit{Fit: 9, Tried: []v1alpha1.DomainFit{{Fit: 9}}}},
		{"there are more pods than needed", 12, 8, func(*explain.Group) {},
			v1alpha1.PodGroupFit{Fit: 9, Tried: []v1alpha1.DomainFit{{Fit: 9}}}},
		{"the racks, with the most room first", 12, 12, func(g *explain.Group) { g.Topology = required },
			v1alpha1.PodGroupFit{Fit: 5, Domain: rack + "=b", Tried: []v1alpha1.DomainFit{{Domain: rack + "=b", Fit: 5}, {Domain: rack + "=a", Fit: 3}}}},
		{"the racks, and then all nodes", 12, 12, func(g *explain.Group) { g.Topology = preferred },
			v1alpha1.PodGroupFit{Fit: 9, Tried: []v1alpha1.DomainFit{{Domain: rack + "=b", Fit: 5}, {Domain: rack + "=a", Fit: 3}, {Fit: 9}}}},
		{"a rack that has room for all is enough", 3, 3, func(g *explain.Group) { g.Topology = required },
			v1alpha1.PodGroupFit{Fit: 3, Domain: rack + "=a", Tried: []v1alpha1.DomainFit{{Domain: rack + "=a", Fit: 3}}}},
		{"the rack of the pods that have a node", 12, 12, func(g *explain.Group) { g.Topology, g.Nodes = required, sets.New("a1") },
			v1alpha1.PodGroupFit{Fit: 3, Domain: rack + "=a", Tried: []v1alpha1.DomainFit{{Domain: rack + "=a", Fit: 3}}}},
		{"pods that fit nowhere", 3, 3, func(g *explain.Group) { g.Pods[1].Spec.NodeSelector = map[string]string{"no": "node"} },
			v1alpha1.PodGroupFit{Fit: 2, Tried: []v1alpha1.DomainFit{{Fit: 2}}}},
		{"a PodGroup that cannot be used", 3, 3, func(g *explain.Group) { g.Problem = "no" }, v1alpha1.PodGroupFit{}},
		{"there are no such racks", 3, 3, func(g *explain.Group) { g.Topology.Required = "no" }, v1alpha1.PodGroupFit{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t)
			c.node("a1", "web", "2", "16Gi", inRack("a"))
			c.node("a2", "web", "2", "16Gi", inRack("a"))
			c.node("b1", "web", "5", "16Gi", inRack("b"))
			c.node("none", "web", "1", "16Gi")
			c.run(pod("other", "1", "1Gi"), "a1")
			g := groupOf(test.pods, test.needed, podgroup.Topology{})
			test.change(g)
			test.want.Name, test.want.Needed, test.want.Ready = "train", int32(test.needed), int32(test.pods)
			if diff := cmp.Diff(&test.want, c.fits(g)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAGroupIsTakenBackBeforeItsPodIsExplained(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "web", "4", "16Gi")
	g := groupOf(6, 6, podgroup.Topology{})
	x := c.explain(explain.Pending{Pod: g.Pods[5], Group: g})
	if got := x.Pending.PodGroup.Fit; got != 4 {
		t.Errorf("%d pods fit, want 4", got)
	}
	if x.Verdict != v1alpha1.VerdictWaitingForTurn || x.Feasible != 1 {
		t.Errorf("the pod by itself fits on %d nodes, want 1: %s", x.Feasible, x.Verdict)
	}
}

func TestAGroupWithoutNodes(t *testing.T) {
	if got := newCluster(t).fits(groupOf(2, 2, podgroup.Topology{})); got.Fit != 0 || got.Ready != 2 || got.Incomplete {
		t.Errorf("got %+v", got)
	}
}

func TestAGroupIsPlacedUntilTheTimeIsUp(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "web", "4", "16Gi")
	g := groupOf(4, 4, podgroup.Topology{})
	k, err := c.Forker.Fork(c.Context())
	c.must(err)
	defer k.Close()
	x, err := explain.Explain(c.Context(), k, explain.Pending{Pod: g.Pods[0], Group: g, SuggestFor: time.Nanosecond})
	c.must(err)
	if got := x.Pending.PodGroup; !got.Incomplete || got.Fit != 0 {
		t.Errorf("got %+v", got)
	}
}

// BenchmarkExplainGroup explains a pod of a group of 1,000 in a cluster of 5,000 nodes in 50 racks,
// of which no rack has room for all: from the fork until it is closed.
//
//	go test -run '^$' -bench ExplainGroup ./internal/scheduler/explain
func BenchmarkExplainGroup(b *testing.B) {
	c := newClusterOn(b, sidebyside.FastPath)
	for i := range 5000 {
		c.node(fmt.Sprintf("n%d", i), "pool", "8", "64Gi", inRack(fmt.Sprintf("r%d", i%50)))
	}
	for name, topology := range map[string]podgroup.Topology{"Cluster": {}, "Racks": {Required: rack}} {
		b.Run(name, func(b *testing.B) {
			g := groupOf(1000, 1000, topology)
			for b.Loop() {
				k, err := c.Forker.Fork(b.Context())
				c.must(err)
				x, err := explain.Explain(b.Context(), k, explain.Pending{Pod: g.Pods[0], Group: g, Now: time.Now()})
				c.must(err)
				b.ReportMetric(float64(x.Pending.PodGroup.Fit), "fit")
				b.ReportMetric(float64(len(x.Pending.PodGroup.Tried)), "domains")
				k.Close()
			}
		})
	}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/explain"
	"github.com/livesched/livesched/internal/scheduler/fork"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/sidebyside"
)

// rack is the key of a label of nodes.
const rack = "example.com/rack"

// inRack puts a node into a rack.
func inRack(name string) func(*corev1.Node) {
	return func(node *corev1.Node) { node.Labels[rack] = name }
}

// groupOf returns a group of pods that request 1 CPU each.
func groupOf(pods, needed int, topology podgroup.Topology) *fork.Group {
	g := &fork.Group{
		Group: podgroup.Group{Key: podgroup.Key{Namespace: "default", Name: "train"}, MinMember: needed,
			Topology: topology},
		Needed: needed,
	}
	for i := range pods {
		g.Pods = append(g.Pods, pod(fmt.Sprintf("train-%03d", i), "1", "1Gi"))
	}
	return g
}

// fits explains the first pod of a group.
func (c *cluster) fits(g *fork.Group) *v1alpha1.PodGroupFit {
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
		change func(g *fork.Group)
		want   v1alpha1.PodGroupFit
	}{
		{"the whole cluster, where other pods run", 12, 12, func(*fork.Group) {},
			v1alpha1.PodGroupFit{Fit: 9, Tried: []v1alpha1.DomainFit{{Fit: 9}}}},
		{"there are more pods than needed", 12, 8, func(*fork.Group) {},
			v1alpha1.PodGroupFit{Fit: 9, Tried: []v1alpha1.DomainFit{{Fit: 9}}}},
		{"the racks, with the most room first", 12, 12, func(g *fork.Group) { g.Topology = required },
			v1alpha1.PodGroupFit{Fit: 5, Domain: rack + "=b",
				Tried: []v1alpha1.DomainFit{{Domain: rack + "=b", Fit: 5}, {Domain: rack + "=a", Fit: 3}}}},
		{"the racks, and then all nodes", 12, 12, func(g *fork.Group) { g.Topology = preferred },
			v1alpha1.PodGroupFit{Fit: 9,
				Tried: []v1alpha1.DomainFit{{Domain: rack + "=b", Fit: 5}, {Domain: rack + "=a", Fit: 3}, {Fit: 9}}}},
		{"a rack that has room for all is enough", 3, 3, func(g *fork.Group) { g.Topology = required },
			v1alpha1.PodGroupFit{Fit: 3, Domain: rack + "=a",
				Tried: []v1alpha1.DomainFit{{Domain: rack + "=a", Fit: 3}}}},
		{"the rack of the pods that have a node", 12, 12,
			func(g *fork.Group) { g.Topology, g.On = required, sets.New("a1") },
			v1alpha1.PodGroupFit{Fit: 3, Domain: rack + "=a",
				Tried: []v1alpha1.DomainFit{{Domain: rack + "=a", Fit: 3}}}},
		{"pods that fit nowhere", 3, 3,
			func(g *fork.Group) { g.Pods[1].Spec.NodeSelector = map[string]string{"no": "node"} },
			v1alpha1.PodGroupFit{Fit: 2, Tried: []v1alpha1.DomainFit{{Fit: 2}}}},
		{"a PodGroup that cannot be used", 3, 3, func(g *fork.Group) { g.Problem = "no" }, v1alpha1.PodGroupFit{}},
		{"there are no such racks", 3, 3, func(g *fork.Group) { g.Topology.Required = "no" }, v1alpha1.PodGroupFit{}},
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
	if x.Verdict != v1alpha1.VerdictGroupDoesNotFit || x.Feasible != 1 {
		t.Errorf("the pod by itself fits on %d nodes, want 1: %s", x.Feasible, x.Verdict)
	}
}

// ofGroup explains the first pod of a group that is in the queue.
func (c *cluster) ofGroup(g *fork.Group) explain.Explanation {
	c.Helper()
	return c.explain(explain.Pending{Pod: g.Pods[0], Group: g, Wait: &queue.Wait{
		PodState: queue.PodState{Place: queue.Unschedulable},
		Group:    &queue.GroupWait{Key: g.Key, Known: true, Needed: g.Needed, Ready: len(g.Pods)},
	}})
}

func TestWhatWouldHelpAGroup(t *testing.T) {
	tolerating := func(g *fork.Group) {
		for _, p := range g.Pods {
			p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}
	}
	for _, test := range []struct {
		name    string
		pods    int
		change  func(*cluster, *fork.Group)
		verdict v1alpha1.Verdict
		message string
		want    []string
	}{
		{"there is room", 9, nil, v1alpha1.VerdictWaitingForTurn,
			"9 pods of the pod group default/train must be placed together", nil},
		{"more nodes", 20, nil, v1alpha1.VerdictGroupDoesNotFit,
			"Of the pod group default/train, 20 pods must be placed together, but only 9 fit now. The pod by itself " +
				"fits on 4 of 5 nodes.",
			[]string{"AddNode 6 web: Add 6 nodes like the nodes of the pool web.",
				"AddNode 3 batch: Add 3 nodes like the nodes of the pool batch."}},
		{"a domain that is too small", 9, func(_ *cluster, g *fork.Group) { g.Topology.Required = rack },
			v1alpha1.VerdictGroupDoesNotFit,
			"Of the pod group default/train, 9 pods must be placed together, but only 5 fit in one domain now. The " +
				"pod by itself fits on 4 of 5 nodes.",
			[]string{"AddNode 1 batch: Add a node like the nodes of the pool batch. They need the labels of the " +
				"domain where most pods of the group fit."}},
		{"domains that are not there", 9, func(_ *cluster, g *fork.Group) { g.Topology.Required = "no" },
			v1alpha1.VerdictGroupDoesNotFit,
			"No node has the labels that the pod group default/train requires. 9 of its pods must be placed together.",
			nil},
		{"no node takes a pod", 2, func(c *cluster, g *fork.Group) {
			for _, name := range []string{"a1", "a2", "b1", "none"} {
				c.run(pod("fills-"+name, "5", "1Gi"), name)
			}
			g.Pods[0].Spec.PriorityClassName = "x" // the others demand the same
		}, v1alpha1.VerdictFitsWhenFreed, "", []string{
			"Tolerate 0 gpu: Let the pod tolerate the taint gpu:NoSchedule of one node of the pool gpu.",
			"AddNode 1 web: Add a node like the nodes of the pool web.",
			"AddNode 1 batch: Add a node like the nodes of the pool batch.",
		}},
		{"all nodes are too small", 2, func(c *cluster, g *fork.Group) {
			tolerating(g)
			c.node("b2", "batch", "5", "64Gi")
			for _, p := range g.Pods {
				p.Spec.Containers[0].Resources = objects.Requests("10", "1Gi")
			}
		}, v1alpha1.VerdictNeverFits, "it requests 10 cpu, and the largest node that it may be on has 5 cpu beside " +
			"DaemonSets and static pods (pool batch).",
			[]string{"ReduceRequests 0 batch: Request at most 5 cpu: so much is free on a node of the pool batch."}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t)
			c.node("a1", "web", "2", "64Gi", inRack("a"))
			c.node("a2", "web", "2", "64Gi", inRack("a"))
			c.node("none", "web", "1", "64Gi")
			c.node("b1", "batch", "5", "64Gi", inRack("b"))
			c.node("tainted", "gpu", "4", "64Gi", tainted("gpu"))
			c.run(pod("other", "1", "1Gi"), "a1")
			g := groupOf(test.pods, test.pods, podgroup.Topology{})
			if test.change != nil {
				test.change(c, g)
			}
			x := c.ofGroup(g)
			if x.Verdict != test.verdict || !strings.Contains(x.Message, test.message) {
				t.Errorf("got %s: %s", x.Verdict, x.Message)
			}
			var got []string
			for _, s := range x.Pending.Suggestions {
				got = append(got, fmt.Sprintf("%s %d %s: %s", s.Type, s.Count, s.Pool, s.Description))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
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

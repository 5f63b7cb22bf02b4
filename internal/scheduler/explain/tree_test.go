// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/explain"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/test/objects"
)

// trees adds trees of groups to a cluster.
type trees struct {
	*cluster
	pods []*corev1.Pod
}

func newTrees(t *testing.T) *trees {
	c := &trees{cluster: newCluster(t)}
	for _, source := range []podgroup.Source{podgroup.Kubernetes, podgroup.Composite} {
		c.Groups.SetServed(source, func() bool { return true }, nil)
	}
	return c
}

func (c *trees) composite(name, parent string, minGroups int, topology string) {
	c.Groups.SetComposite(podgroup.CompositeGroup{Key: podgroup.CompositeKey("default", name), Parent: parent,
		MinGroups: minGroups, Topology: podgroup.Topology{Required: topology}})
}

// group adds a group of pods with one CPU each, all of which are needed.
func (c *trees) group(name, parent string, pods int, topology string) {
	c.Groups.SetGroup(podgroup.Group{Key: leafKey(name), MinMember: pods, Parent: parent,
		Topology: podgroup.Topology{Required: topology}})
	for i := range pods {
		p := pod(fmt.Sprintf("%s-%d", name, i), "1", "1Gi")
		objects.InGroup(name)(p)
		c.pods = append(c.pods, p)
	}
}

func leafKey(name string) podgroup.Key {
	return podgroup.Key{Source: podgroup.Kubernetes, Namespace: "default", Name: name}
}

// of explains the first pod of a group.
func (c *trees) of(group string) explain.Explanation {
	c.Helper()
	var first *corev1.Pod
	for _, p := range c.pods {
		if first == nil && podgroup.KeyOf(p).Name == group {
			first = p
		}
	}
	g := explain.GroupOf(c.Groups, leafKey(group), first.Spec.SchedulerName, c.pods,
		func(*corev1.Pod) bool { return true })
	return c.explain(explain.Pending{Pod: first, Group: g, Wait: &queue.Wait{
		PodState: queue.PodState{Place: queue.Unschedulable},
		Group:    &queue.GroupWait{Key: leafKey(group), Known: true},
	}})
}

// Rack a has 4 CPUs on two nodes, and rack b has 5.
func TestHowMuchOfATreeFits(t *testing.T) {
	for _, test := range []struct {
		name  string
		build func(c *trees)
		// of is the group whose pod is explained.
		of      string
		want    v1alpha1.PodGroupFit
		verdict v1alpha1.Verdict
		message string
	}{
		{"too few groups fit", func(c *trees) {
			c.composite("root", "", 2, "")
			c.group("a", "root", 6, "")
			c.group("b", "root", 6, "")
		}, "a", v1alpha1.PodGroupFit{Name: "root", Composite: true, Needed: 2, Ready: 2, Fit: 1,
			Tried: []v1alpha1.DomainFit{{Fit: 1}}}, v1alpha1.VerdictGroupDoesNotFit,
			"Of the composite pod group default/root, 2 groups must be placed together, but only 1 fit now."},
		{"the first group does not fit, but the others do", func(c *trees) {
			c.composite("root", "", 3, "")
			c.group("a", "root", 12, "")
			c.group("b", "root", 2, "")
			c.group("c", "root", 2, "")
		}, "b", v1alpha1.PodGroupFit{Name: "root", Composite: true, Needed: 3, Ready: 3, Fit: 2,
			Tried: []v1alpha1.DomainFit{{Fit: 2}}}, v1alpha1.VerdictGroupDoesNotFit,
			"3 groups must be placed together, but only 2 fit now."},
		{"in one rack", func(c *trees) {
			c.composite("root", "", 2, rack)
			c.group("a", "root", 3, "")
			c.group("b", "root", 3, "")
		}, "a", v1alpha1.PodGroupFit{Name: "root", Composite: true, Needed: 2, Ready: 2, Fit: 1, Domain: rack + "=b",
			Tried: []v1alpha1.DomainFit{{Domain: rack + "=b", Fit: 1}, {Domain: rack + "=a", Fit: 1}}},
			v1alpha1.VerdictGroupDoesNotFit, "only 1 fit in one domain now."},
		{"a group that the tree does without does not fit", func(c *trees) {
			c.composite("root", "", 1, "")
			c.group("a", "root", 6, "")
			c.group("b", "root", 6, "")
		}, "b", v1alpha1.PodGroupFit{Name: "b", Needed: 6, Ready: 6, Fit: 3, Tried: []v1alpha1.DomainFit{{Fit: 3}}},
			v1alpha1.VerdictGroupDoesNotFit,
			"Of the pod group default/b, 6 pods must be placed together, but only 3 fit now."},
		{"a composite group that the tree does without does not fit", func(c *trees) {
			c.composite("root", "", 1, "")
			c.composite("sub", "root", 2, "")
			c.group("a", "root", 6, "")
			c.group("b", "sub", 2, "")
			c.group("c", "sub", 6, "")
		}, "b", v1alpha1.PodGroupFit{Name: "sub", Composite: true, Needed: 2, Ready: 2, Fit: 1,
			Tried: []v1alpha1.DomainFit{{Fit: 1}}}, v1alpha1.VerdictGroupDoesNotFit,
			"Of the composite pod group default/sub, 2 groups must be placed together, but only 1 fit now."},
		{"no node has the label", func(c *trees) {
			c.composite("root", "", 2, "no")
			c.group("a", "root", 1, "")
			c.group("b", "root", 1, "")
		}, "a", v1alpha1.PodGroupFit{Name: "root", Composite: true, Needed: 2, Ready: 2},
			v1alpha1.VerdictGroupDoesNotFit,
			"No node has the labels that the composite pod group default/root requires. 2 of its groups must be"},
		{"all fit", func(c *trees) {
			c.composite("root", "", 2, "")
			c.group("a", "root", 2, "")
			c.group("b", "root", 2, "")
		}, "b", v1alpha1.PodGroupFit{Name: "b", Needed: 2, Ready: 2, Fit: 2, Tried: []v1alpha1.DomainFit{{Fit: 2}}},
			v1alpha1.VerdictWaitingForTurn, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newTrees(t)
			c.node("a1", "web", "2", "16Gi", inRack("a"))
			c.node("a2", "web", "2", "16Gi", inRack("a"))
			c.node("b1", "web", "5", "16Gi", inRack("b"))
			test.build(c)
			got := c.of(test.of)
			if diff := cmp.Diff(&test.want, got.Pending.PodGroup); diff != "" {
				t.Error(diff)
			}
			if got.Verdict != test.verdict || !strings.Contains(got.Message, test.message) {
				t.Errorf("got %s: %s", got.Verdict, got.Message)
			}
		})
	}
}

// Each node has room for one of the 2 groups of 4 pods that are needed.
func TestNodesForATree(t *testing.T) {
	c := newTrees(t)
	c.node("n1", "web", "2", "16Gi")
	c.composite("root", "", 2, "")
	c.group("a", "root", 4, "")
	c.group("b", "root", 4, "")
	got := c.of("a")
	if len(got.Pending.Suggestions) != 1 || !strings.Contains(got.Pending.Suggestions[0].Description, "Add 3 nodes") {
		t.Errorf("got %+v", got.Pending.Suggestions)
	}
}

func TestAGroupThatWaitsForItsTree(t *testing.T) {
	c := newTrees(t)
	c.group("a", "root", 1, "")
	got := c.explain(explain.Pending{Pod: c.pods[0], Wait: &queue.Wait{
		PodState: queue.PodState{Place: queue.Gated, GatingPlugin: podgroup.Gate},
		Group: &queue.GroupWait{Key: leafKey("a"), Known: true, Needed: 1, Ready: 1,
			TreeAwaits: "there is no CompositePodGroup default/root"},
	}})
	want := "The pod group default/a has enough pods, but there is no CompositePodGroup default/root."
	if got.Verdict != v1alpha1.VerdictGated || got.Message != want {
		t.Errorf("got %s: %s", got.Verdict, got.Message)
	}
	if g := explain.GroupOf(c.Groups, leafKey("a"), "", c.pods, nil); g != nil {
		t.Errorf("a group without its tree is %+v", g)
	}
}

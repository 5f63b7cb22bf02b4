// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/resolve"
	"github.com/livesched/livesched/internal/scheduler/simulate"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/sidebyside"
)

// newGroupCluster returns a cluster that serves PodGroups, with nodes of 8 CPUs in racks: "r0-0",
// "r0-1" and so on.
func newGroupCluster(t *testing.T, racks ...int) *cluster {
	t.Helper()
	c := newCluster(t, sidebyside.FastPath)
	c.Groups.SetServed(podgroup.SchedulerPlugins, func() bool { return true }, nil)
	for rack, nodes := range racks {
		for i := range nodes {
			c.node(fmt.Sprintf("r%d-%d", rack, i), fmt.Sprintf("r%d", rack), "pool")
		}
	}
	return c
}

// group is the PodGroup default/g.
func group(minMember int) podgroup.Group {
	return podgroup.Group{Key: podgroup.Key{Namespace: "default", Name: "g"}, MinMember: minMember}
}

// inOneRack is a group whose pods have to be in one rack.
func inOneRack(minMember int) podgroup.Group {
	g := group(minMember)
	g.Topology.Required = corev1.LabelTopologyZone
	return g
}

// members returns pending pods of the group with 4 CPUs each, of which two fit on a node.
func members(n int) (pods []*corev1.Pod) {
	for i := range n {
		pods = append(pods, member(100+i))
	}
	return pods
}

func member(number int) *corev1.Pod {
	p := pod("train", number, "4", "1Gi")
	p.Labels[podgroup.Label] = "g"
	return p
}

func TestAGroupIsDecidedAsAWhole(t *testing.T) {
	ended := group(5)
	ended.Succeeded = 2
	oneByOne := group(1)
	oneByOne.OneByOne = true
	wrong := group(2)
	wrong.Problem = "annotation x: wrong"
	for name, test := range map[string]struct {
		racks    []int
		group    *podgroup.Group
		pods     int
		unplaced int
		nodes    int32
		message  string
	}{
		"all fit": {[]int{2}, new(group(4)), 4, 0, 2, ""},
		"too few fit": {[]int{2}, new(group(5)), 6, 6, 0,
			"there are resources for 4 of them at most"},
		"more than needed": {[]int{2}, new(group(3)), 6, 2, 2, "Insufficient cpu"},
		"too few are there": {[]int{4}, new(group(5)), 4, 4, 0,
			"5 pods must be placed together, but there are 4"},
		"some have succeeded":            {[]int{4}, &ended, 3, 0, 3, ""},
		"no PodGroup":                    {[]int{4}, nil, 3, 3, 0, "there is no such PodGroup"},
		"a PodGroup that is wrong":       {[]int{4}, &wrong, 3, 3, 0, "annotation x: wrong"},
		"one by one":                     {[]int{1}, &oneByOne, 3, 1, 1, "Insufficient cpu"},
		"in the smallest rack with room": {[]int{3, 2, 1}, new(inOneRack(4)), 4, 0, 2, ""},
		"in no rack": {[]int{2, 2}, new(inOneRack(5)), 5, 5, 0,
			"there are resources for 4 of them at most in one " + corev1.LabelTopologyZone},
	} {
		t.Run(name, func(t *testing.T) {
			c := newGroupCluster(t, test.racks...)
			if test.group != nil {
				c.Groups.SetGroup(*test.group)
			}
			status := c.simulate(simulate.Request{Pods: pending(), Pending: members(test.pods)})
			got := status.Current
			if int(got.Unplaced) != test.unplaced || got.Preemptions != 0 || test.nodes > 0 &&
				got.NodesUsed > test.nodes {
				t.Errorf("got %+v", got)
			}
			for i := range got.UnplacedPods {
				if !strings.Contains(got.UnplacedPods[i].Message, test.message) {
					t.Errorf("got %q, want %q", got.UnplacedPods[i].Message, test.message)
				}
			}
		})
	}
}

func TestGroupsThatRunAreDecidedAgain(t *testing.T) {
	c := newGroupCluster(t, 2, 2)
	c.Groups.SetGroup(inOneRack(4))
	for i := range 3 { // one pod has gone since
		c.run(member(i), fmt.Sprintf("r%d-0", i/2))
	}
	same := *c.Profile.Config
	r := simulate.Request{Pods: all(), Changes: map[string]*resolve.Profile{"mine": &same}, Seed: 3}
	status := c.simulate(r)
	if status.Current.Unplaced != 0 || status.Current.Moved == 0 || status.Current.NodesUsed != 2 ||
		status.New.Moved != 0 {
		t.Errorf("got %+v", status)
	}
	if diff := cmp.Diff(status, c.simulate(r)); diff != "" {
		t.Errorf("a second simulation differs: %s", diff)
	}
	// The pods that stay draw the others to their rack.
	r = simulate.Request{Pods: pending(), Pending: members(1)}
	c.Groups.SetGroup(inOneRack(3))
	if got := c.simulate(r).Current; got.Unplaced != 0 {
		t.Errorf("a pod that joins: %+v", got)
	}
}

func TestAGroupIsSelectedAsAWhole(t *testing.T) {
	c := newGroupCluster(t, 2)
	c.Groups.SetGroup(group(3))
	pods := members(3)
	pods[0].Labels["role"] = "leader"
	leader, err := labels.Parse("role=leader")
	c.must(err)
	for name, selection := range map[string]simulate.Selection{
		"by a label of one pod": {Type: v1alpha1.PodsPending, Limit: simulate.MaxPods, Labels: leader},
		"beyond the limit":      {Type: v1alpha1.PodsAll, Limit: 1, Labels: labels.Everything()},
	} {
		status := c.simulate(simulate.Request{Pods: selection, Pending: pods})
		if status.Pods != 3 || status.Current.Unplaced != 0 {
			t.Errorf("%s: %+v", name, status)
		}
	}
}

func TestAGroupPreemptsInASimulation(t *testing.T) {
	c := newGroupCluster(t, 2, 2)
	for i, node := range []string{"r0-0", "r0-1", "r1-0"} {
		c.run(pod("web", i, "8", "1Gi"), node)
	}
	c.Groups.SetGroup(inOneRack(4))
	pods := members(4)
	for _, p := range pods {
		p.Spec.Priority = important(0, "1").Spec.Priority
	}
	status := c.simulate(simulate.Request{Pods: pending(), Pending: pods})
	got := status.Current
	if got.Unplaced != 0 || got.Preemptions != 1 || got.Victims != 1 || got.VictimPods[0].Name != "web-abc-2" ||
		got.VictimPods[0].Node != "r1-0" {
		t.Errorf("the rack with the most room needs one eviction: %+v", got)
	}
	// Pods that are decided, too, are unplaced then. Nothing is left for the second column.
	same := *c.Profile.Config
	status = c.simulate(simulate.Request{Pods: all(), Pending: pods,
		Changes: map[string]*resolve.Profile{"mine": &same}})
	if status.Current.Unplaced != 1 || status.New.Unplaced != 1 || status.New.Moved != 0 {
		t.Errorf("got %+v", status)
	}
	c.Groups.SetGroup(inOneRack(5))
	pods = append(pods, member(200))
	if got := c.simulate(simulate.Request{Pods: pending(), Pending: pods}).Current; got.Victims != 0 ||
		got.Unplaced != 5 {
		t.Errorf("no pod is evicted for a group that does not fit anyway: %+v", got)
	}
}

func TestAGroupEvictsAWholeGroup(t *testing.T) {
	c := newGroupCluster(t, 2)
	victims := podgroup.Group{Key: podgroup.Key{Namespace: "default", Name: "victims"}, MinMember: 2,
		EvictedWhole: true}
	c.Groups.SetGroup(victims)
	for i, node := range []string{"r0-0", "r0-1"} {
		p := pod("web", i, "8", "1Gi")
		p.Labels[podgroup.Label] = victims.Name
		c.run(p, node)
	}
	c.Groups.SetGroup(group(1))
	p := member(7)
	p.Spec.Priority = important(0, "1").Spec.Priority
	got := c.simulate(simulate.Request{Pods: pending(), Pending: []*corev1.Pod{p}}).Current
	if got.Preemptions != 1 || got.Victims != 2 || got.VictimPods[0].Node == got.VictimPods[1].Node {
		t.Errorf("got %+v", got)
	}
}

func TestGroupsAreCounted(t *testing.T) {
	for name, test := range map[string]struct {
		racks      []int
		group      v1alpha1.CapacityPodGroup
		limit      int32
		groups     int32
		nodes      int32
		limited    bool
		message    string
		fit, tried int
	}{
		"anywhere": {
			racks: []int{3, 2}, group: v1alpha1.CapacityPodGroup{MinMember: 4}, groups: 2, nodes: 4,
			message: "pod group default/train: 4 pods must be placed together, but there are resources for 2 of them " +
				"at most", fit: 2, tried: 1,
		},
		"in one rack": {
			racks: []int{3, 3},
			group: v1alpha1.CapacityPodGroup{MinMember: 4, RequiredTopology: corev1.LabelTopologyZone}, groups: 2,
			nodes:   4,
			message: "at most in one " + corev1.LabelTopologyZone, fit: 2, tried: 2,
		},
		"in one rack, if possible": {
			racks:  []int{3, 3},
			group:  v1alpha1.CapacityPodGroup{MinMember: 4, PreferredTopology: []string{corev1.LabelTopologyZone}},
			groups: 3, nodes: 6,
			message: "but there are resources for 0 of them", tried: 1,
		},
		"up to a limit": {racks: []int{4}, group: v1alpha1.CapacityPodGroup{MinMember: 2}, limit: 7, groups: 3,
			nodes: 3, limited: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newGroupCluster(t, test.racks...)
			like := pod("train", 0, "4", "1Gi")
			like.Name = "train"
			r, err := simulate.ParseCapacity(&v1alpha1.Capacity{
				Metadata: metav1.ObjectMeta{Namespace: "default"},
				Spec:     v1alpha1.CapacitySpec{Pod: *like, PodGroup: &test.group, Limit: test.limit},
			})
			c.must(err)
			status, err := simulate.Count(t.Context(), c.fork(), r)
			c.must(err)
			if status.PodGroups != test.groups || status.Pods != test.groups*test.group.MinMember ||
				status.Nodes < test.nodes || status.Limited != test.limited {
				t.Errorf("got %+v", status)
			}
			if test.limited {
				if status.Next != nil {
					t.Errorf("got %+v", status.Next)
				}
				return
			}
			next := status.Next
			if !strings.Contains(next.Message, test.message) || int(next.PodGroup.Fit) != test.fit ||
				len(next.PodGroup.Tried) != test.tried {
				t.Errorf("the next one: %s, %+v", next.Message, next.PodGroup)
			}
		})
	}
}

func TestTheGroupOfTheClusterIsCounted(t *testing.T) {
	oneByOne, wrong, large, ofKubernetes := group(1), group(2), group(200), group(3)
	oneByOne.OneByOne = true
	wrong.Problem = "annotation x: wrong"
	ofKubernetes.Source = podgroup.Kubernetes
	for name, test := range map[string]struct {
		group         *podgroup.Group
		notServed     bool
		pods, groups  int32
		want          v1alpha1.NamedPodGroup
		error, reason string
	}{
		"together": {
			group: new(inOneRack(3)), pods: 6, groups: 2,
			want:   v1alpha1.NamedPodGroup{Use: v1alpha1.PodGroupTogether, MinMember: 3},
			reason: "pod group default/g: 3 pods must be placed together",
		},
		"of Kubernetes": {
			group: &ofKubernetes, pods: 6, groups: 2,
			want: v1alpha1.NamedPodGroup{APIVersion: "scheduling.k8s.io/v1beta1", Use: v1alpha1.PodGroupTogether,
				MinMember: 3},
		},
		"one by one": {group: &oneByOne, pods: 8, want: v1alpha1.NamedPodGroup{Use: v1alpha1.PodGroupOneByOne}},
		"unknown":    {pods: 8, want: v1alpha1.NamedPodGroup{Use: v1alpha1.PodGroupNotFound}},
		"not served": {notServed: true, pods: 8, want: v1alpha1.NamedPodGroup{Use: v1alpha1.PodGroupNotServed}},
		"wrong":      {group: &wrong, error: "annotation x: wrong"},
		"too large":  {group: &large, error: "200 pods must be placed together, but spec.limit is 100"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newGroupCluster(t, 2, 2)
			c.Groups.SetServed(podgroup.SchedulerPlugins, func() bool { return !test.notServed }, nil)
			c.Groups.SetServed(podgroup.Kubernetes, func() bool { return true }, nil)
			like := member(0)
			if test.group != nil {
				c.Groups.SetGroup(*test.group)
				if test.group.Source == podgroup.Kubernetes {
					like.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("g")}
				}
			}
			got, err := simulate.Count(t.Context(), c.fork(), simulate.CountRequest{Pod: like, Limit: 100})
			if test.error != "" {
				if err == nil || !strings.Contains(err.Error(), test.error) {
					t.Errorf("got %v", err)
				}
				return
			}
			c.must(err)
			test.want.Name = "g"
			if test.want.APIVersion == "" {
				test.want.APIVersion = "scheduling.x-k8s.io/v1alpha1"
			}
			if diff := cmp.Diff(&test.want, got.PodGroup); diff != "" || got.Pods != test.pods ||
				got.PodGroups != test.groups {
				t.Errorf("%d pods, %d groups: %s", got.Pods, got.PodGroups, diff)
			}
			if !strings.Contains(got.Next.Message, test.reason) {
				t.Errorf("next: %s", got.Next.Message)
			}
		})
	}
}

func TestAGroupThatCannotBeCounted(t *testing.T) {
	like := pod("train", 0, "4", "1Gi")
	_, err := simulate.ParseCapacity(
		&v1alpha1.Capacity{Spec: v1alpha1.CapacitySpec{Pod: *like, Limit: 10, PodGroup: &v1alpha1.CapacityPodGroup{
			MinMember: 11, RequiredTopology: "no key", PreferredTopology: []string{"a", "b", "c", "d", "e"},
		}}})
	var invalid *simulate.InvalidError
	if !errors.As(err, &invalid) {
		t.Fatal(err)
	}
	var fields []string
	for _, problem := range invalid.Fields {
		fields = append(fields, problem.Field)
	}
	want := []string{"spec.podGroup.minMember", "spec.podGroup.requiredTopology", "spec.podGroup.preferredTopology"}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Error(diff)
	}
}

// treeMember returns a pending pod of a group of a tree with 4 CPUs, of which two fit on a node.
func treeMember(number int, group string) *corev1.Pod {
	p := pod("train", number, "4", "1Gi")
	objects.InGroup(group)(p)
	return p
}

// leafOf is a group of a tree that needs two pods.
func leafOf(name, parent string) podgroup.Group {
	key := podgroup.Key{Source: podgroup.Kubernetes, Namespace: "default", Name: name}
	return podgroup.Group{Key: key, MinMember: 2, Parent: parent}
}

// newTreeCluster is newGroupCluster with a tree of the groups a and b.
func newTreeCluster(t *testing.T, minGroups int, topology string, racks ...int) *cluster {
	t.Helper()
	c := newGroupCluster(t, racks...)
	for _, source := range []podgroup.Source{podgroup.Kubernetes, podgroup.Composite} {
		c.Groups.SetServed(source, func() bool { return true }, nil)
	}
	c.Groups.SetComposite(podgroup.CompositeGroup{Key: podgroup.CompositeKey("default", "root"), MinGroups: minGroups,
		Topology: podgroup.Topology{Required: topology}})
	for _, name := range []string{"a", "b"} {
		c.Groups.SetGroup(leafOf(name, "root"))
	}
	return c
}

func TestATreeIsDecidedAsAWhole(t *testing.T) {
	for name, test := range map[string]struct {
		minGroups int
		topology  string
		racks     []int
		pods      string // the groups of the pods
		unplaced  int
		message   string
	}{
		"all fit":       {2, "", []int{1, 1}, "aabb", 0, ""},
		"too few fit":   {2, "", []int{1}, "aabb", 4, "there are resources for 2 of them at most"},
		"one is enough": {1, "", []int{1}, "aabb", 2, "pod group default/b: 0 of 2 pods that must be placed"},
		"in no rack": {2, corev1.LabelTopologyZone, []int{1, 1}, "aabb", 4,
			"there are resources for 2 of them at most in one " + corev1.LabelTopologyZone},
		"in one rack":                     {2, corev1.LabelTopologyZone, []int{1, 2}, "aabb", 0, ""},
		"a group lacks pods":              {2, "", []int{4}, "aab", 3, "must be placed together, but"},
		"the tree needs no b":             {1, "", []int{4}, "aab", 1, "2 pods must be placed together, but there"},
		"a tree is mixed with other pods": {2, "", []int{1}, "a-abb", 4, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTreeCluster(t, test.minGroups, test.topology, test.racks...)
			var pods []*corev1.Pod
			for i, group := range test.pods {
				if group == '-' {
					pods = append(pods, pod("train", 100+i, "1", "1Gi"))
				} else {
					pods = append(pods, treeMember(100+i, string(group)))
				}
			}
			got := c.simulate(simulate.Request{Pods: pending(), Pending: pods}).Current
			if int(got.Unplaced) != test.unplaced {
				t.Errorf("got %+v", got)
			}
			for i := range got.UnplacedPods {
				if !strings.Contains(got.UnplacedPods[i].Message, test.message) {
					t.Errorf("got %q, want %q", got.UnplacedPods[i].Message, test.message)
				}
			}
		})
	}
}

func TestATreeWithoutItsObjects(t *testing.T) {
	c := newTreeCluster(t, 1, "", 2)
	c.Groups.DeleteComposite(podgroup.CompositeKey("default", "root"))
	pods := []*corev1.Pod{treeMember(100, "a"), treeMember(101, "a")}
	got := c.simulate(simulate.Request{Pods: pending(), Pending: pods})
	if got.Current.Unplaced != 2 ||
		!strings.Contains(got.Current.UnplacedPods[0].Message, "there is no CompositePodGroup default/root") {
		t.Errorf("got %+v", got.Current)
	}
}

// Two pods of the tree are on nodes of the second rack, and stay there. Or they are decided again
// with the others.
func TestTreesThatRun(t *testing.T) {
	c := newTreeCluster(t, 2, corev1.LabelTopologyZone, 2, 2)
	for i := range 2 {
		c.run(treeMember(i, "a"), fmt.Sprintf("r1-%d", i))
	}
	joining := []*corev1.Pod{treeMember(100, "b"), treeMember(101, "b")}
	got := c.simulate(simulate.Request{Pods: pending(), Pending: joining}).Current
	if got.Unplaced != 0 || got.NodesUsed != 2 {
		t.Errorf("pods that join: %+v", got)
	}
	c.Groups.SetGroup(podgroup.Group{Key: leafOf("a", "").Key, MinMember: 3, Parent: "root"}) // it has lost one since
	same := *c.Profile.Config
	r := simulate.Request{Pods: all(), Pending: joining, Changes: map[string]*resolve.Profile{"mine": &same}, Seed: 3}
	status := c.simulate(r)
	if status.Current.Unplaced != 0 || status.New.Unplaced != 0 || status.New.Moved != 0 {
		t.Errorf("pods that run: %+v", status)
	}
}

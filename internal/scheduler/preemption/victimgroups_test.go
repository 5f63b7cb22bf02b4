// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"slices"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// join puts a pod that is on a node into a group.
func (c *crowd) join(pod *corev1.Pod, key podgroup.Key) *corev1.Pod {
	c.t.Helper()
	joined := pod.DeepCopy()
	if key.Source == podgroup.Kubernetes {
		joined.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To(key.Name)}
	} else {
		joined.Labels[podgroup.Label] = key.Name
	}
	must(c.t, c.cache.RemovePod(logr.Discard(), pod))
	must(c.t, c.cache.AddPod(logr.Discard(), joined))
	return joined
}

var bothSources = map[string]podgroup.Source{
	"scheduler-plugins": podgroup.SchedulerPlugins, "Kubernetes": podgroup.Kubernetes,
}

// A pod of priority 10 needs room on n0, where a pod of a group runs. Another one of the group runs
// on n1.
func TestPodsEvictGroupsAsAWhole(t *testing.T) {
	for _, test := range []struct {
		name string
		// own is the priority of the pods on n0 and n1, of is that of the group.
		own    [2]int32
		of     *int32
		single bool
		// without lists the sources to which the case does not apply.
		without []podgroup.Source
		victims int
	}{
		{name: "as a whole", own: [2]int32{1, 1}, victims: 2},
		{name: "as single pods", own: [2]int32{1, 1}, single: true, victims: 1},
		{name: "the most important pod counts", own: [2]int32{1, 10}},
		{name: "the most important pod counts not for single pods", own: [2]int32{1, 10}, single: true, victims: 1},
		{name: "the group is more important than its pods", own: [2]int32{1, 1}, of: ptr.To[int32](10)},
		{name: "the group is less important than its pods", own: [2]int32{20, 20}, of: ptr.To[int32](1), victims: 2},
		{name: "the group of single pods is more important", own: [2]int32{1, 1}, of: ptr.To[int32](10), single: true,
			without: []podgroup.Source{podgroup.SchedulerPlugins}},
		{name: "the group of single pods is less important", own: [2]int32{20, 20}, of: ptr.To[int32](1), single: true,
			without: []podgroup.Source{podgroup.SchedulerPlugins}, victims: 1},
	} {
		for api, source := range bothSources {
			if slices.Contains(test.without, source) {
				continue
			}
			t.Run(test.name+", "+api, func(t *testing.T) {
				c := newCrowd(t, 2)
				key := podgroup.Key{Source: source, Namespace: namespace, Name: "g"}
				c.groups.SetGroup(podgroup.Group{Key: key, MinMember: 1, EvictedWhole: !test.single, Priority: test.of})
				var members []*corev1.Pod
				for i, node := range c.nodes {
					members = append(members, c.join(c.add(node, test.own[i], "600m"), key))
				}
				pod := c.pending(10)
				choice, err := c.newTrial(100).Choose(c.ctx, c.prepared(pod, 1), pod, c.full(c.nodes[:1]))
				must(t, err)
				if test.victims == 0 {
					if choice != nil {
						t.Fatalf("%d pods would be evicted", len(choice.Victims))
					}
				} else if choice == nil || len(choice.Victims) != test.victims || choice.Node != c.nodes[0] ||
					!slices.ContainsFunc(choice.Victims, func(v *corev1.Pod) bool { return v.UID == members[0].UID }) {
					t.Fatalf("got %+v, want %d victims", choice, test.victims)
				}
				result, status := c.framework.RunPostFilterPlugins(c.ctx, c.prepared(pod, 1), pod, c.full(c.nodes[:1]))
				if status.IsSuccess() != (test.victims > 0) {
					t.Fatalf("PostFilter: %v, %v", result, status)
				}
				c.evictor.mu.Lock()
				defer c.evictor.mu.Unlock()
				if p := c.evictor.latest[pod.UID]; test.victims > 0 && (p == nil || len(p.victims) != test.victims) {
					t.Errorf("the preemption is %+v", p)
				}
			})
		}
	}
}

// A pod of priority 10 needs room on n0, where pods of two groups of a tree run. Others of them run
// on n1.
func TestPodsEvictTreesAsAWhole(t *testing.T) {
	for name, test := range map[string]struct {
		priority int32
		single   bool
		victims  int
	}{
		"as a whole":               {priority: 1, victims: 4},
		"the tree is as important": {priority: 10},
		"as single pods":           {priority: 1, single: true, victims: 2},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t, 2)
			c.groups.SetComposite(podgroup.CompositeGroup{Key: podgroup.CompositeKey(namespace, "root"), MinGroups: 1,
				Priority: &test.priority, EvictedWhole: !test.single})
			for _, group := range []string{"a", "b"} {
				key := podgroup.Key{Source: podgroup.Kubernetes, Namespace: namespace, Name: group}
				c.groups.SetGroup(podgroup.Group{Key: key, MinMember: 1, Parent: "root", Priority: ptr.To[int32](1)})
				for _, node := range c.nodes {
					c.join(c.add(node, 1, "400m"), key)
				}
			}
			pod := c.pending(10)
			choice, err := c.newTrial(100).Choose(c.ctx, c.prepared(pod, 1), pod, c.full(c.nodes[:1]))
			must(t, err)
			if (choice != nil) != (test.victims > 0) || choice != nil && len(choice.Victims) != test.victims {
				t.Fatalf("got %+v, want %d victims", choice, test.victims)
			}
			result, status := c.framework.RunPostFilterPlugins(c.ctx, c.prepared(pod, 1), pod, c.full(c.nodes[:1]))
			if status.IsSuccess() != (test.victims > 0) {
				t.Fatalf("PostFilter: %v, %v", result, status)
			}
		})
	}
}

// The priority that counts for a pod is the same for all groups that preempt, also for its own
// group: one attempt keeps what it computes from it for the next.
func TestThePriorityOfAPodDoesNotDependOnThePreemptor(t *testing.T) {
	c := newCrowd(t, 1)
	key := podgroup.Key{Source: podgroup.Kubernetes, Namespace: namespace, Name: "g"}
	c.groups.SetGroup(podgroup.Group{Key: key, MinMember: 1, Priority: ptr.To[int32](7)})
	pod := c.join(c.add("n0", 1, "400m"), key)
	for _, own := range []bool{false, true} {
		victims := c.plugin.VictimsFor(func(podgroup.Key) bool { return own })
		if got := victims.PriorityOf(pod); got != 7 {
			t.Errorf("own group %v: the priority is %d, want that of the group", own, got)
		}
	}
}

// A whole group counts with all of its pods when nodes are compared.
func TestANodeWithoutAWholeGroupIsTaken(t *testing.T) {
	c := newCrowd(t, 3)
	key := podgroup.Key{Source: podgroup.Kubernetes, Namespace: namespace, Name: "g"}
	c.groups.SetGroup(podgroup.Group{Key: key, MinMember: 1, EvictedWhole: true, Priority: ptr.To[int32](1)})
	c.join(c.add("n0", 1, "600m"), key)
	c.join(c.add("n1", 1, "600m"), key)
	c.add("n2", 1, "300m")
	alone := c.add("n2", 1, "300m")
	alone.Status.StartTime = nil
	pod := c.pending(10)
	trial := c.newTrial(100)
	for class := range uint64(2) {
		state := c.prepared(pod, 1)
		framework.WriteRefusals(state, &framework.Refusals{Class: class, Version: class})
		choice, err := trial.Choose(c.ctx, state, pod, c.full(c.nodes))
		must(t, err)
		if choice == nil || len(choice.Victims) != 2 {
			t.Fatalf("got %+v", choice)
		}
	}
	// The group loses its second pod: now it is the least.
	info, err := c.snapshot.Get("n1")
	must(t, err)
	for _, resident := range info.GetPods() {
		if podgroup.KeyOf(resident.GetPod()) == key {
			must(t, c.cache.RemovePod(logr.Discard(), resident.GetPod()))
			break
		}
	}
	choice, err := trial.Choose(c.ctx, c.prepared(pod, 1), pod, c.full(c.nodes))
	must(t, err)
	if choice == nil || choice.Node != "n0" || len(choice.Victims) != 1 {
		t.Errorf("got %+v", choice)
	}
}

// A pod of a group that is scheduled by itself does not evict its group.
func TestAPodSparesItsOwnGroup(t *testing.T) {
	for api, source := range bothSources {
		t.Run(api, func(t *testing.T) {
			c := newCrowd(t, 1)
			key := podgroup.Key{Source: source, Namespace: namespace, Name: "g"}
			c.groups.SetGroup(podgroup.Group{Key: key, MinMember: 1, OneByOne: true, EvictedWhole: true})
			c.join(c.add("n0", 1, "600m"), key)
			pod := c.pending(10)
			own := pod.DeepCopy()
			own.Labels = map[string]string{podgroup.Label: "g"}
			own.Spec.SchedulingGroup = nil
			if source == podgroup.Kubernetes {
				own.Labels, own.Spec.SchedulingGroup = nil, &corev1.PodSchedulingGroup{PodGroupName: ptr.To("g")}
			}
			for pod, want := range map[*corev1.Pod]bool{pod: true, own: false} {
				choice, err := c.newTrial(100).Choose(c.ctx, c.prepared(pod, 1), pod, c.full(c.nodes))
				must(t, err)
				if (choice != nil) != want {
					t.Errorf("for a pod with the labels %v and the group %v: %+v", pod.Labels, pod.Spec.SchedulingGroup,
						choice)
				}
			}
		})
	}
}

// Without groups that are evicted in their own way, no pod is looked at, and upstream's evaluator
// is the one without groups.
func TestOrdinaryGroupsCostNothing(t *testing.T) {
	c := newCrowd(t, 2)
	c.grouped = true
	for _, node := range c.nodes {
		c.add(node, 1, "600m")
	}
	for _, name := range []string{"g1", "g2", "g3"} {
		c.setWhole(name, false)
	}
	pod := c.pending(10)
	state := c.prepared(pod, 1)
	groups := c.plugin.finder.victims
	if groups.current() != nil || groups.members != nil || groups.versions != nil {
		t.Errorf("the groups are %+v", groups)
	}
	if got := c.plugin.finder.evaluatorFor(c.plugin.Evaluator, nil); got != c.plugin.Evaluator {
		t.Error("the evaluator is another one")
	}
	// Informers allocate, too, but not as often.
	if allocations := testing.AllocsPerRun(10_000, func() { groups.current() }); allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
	c.setWhole("g1", true)
	if groups.current() == nil || len(groups.members) != 2 {
		t.Errorf("with a whole group: %+v", groups)
	}
	c.groups.DeleteGroup(podgroup.Key{Namespace: namespace, Name: "g1"})
	if groups.current() != nil || groups.members != nil {
		t.Errorf("after it was deleted: %+v", groups)
	}
	choice, err := c.newTrial(10).Choose(c.ctx, state, pod, c.full(c.nodes))
	if err != nil || len(choice.Victims) != 1 {
		t.Errorf("got %+v, %v", choice, err)
	}
}

// The policy of a group counts in place of those of its pods, with the feature gate.
func TestPreemptionPolicyOfAGroup(t *testing.T) {
	never, lower := ptr.To(corev1.PreemptNever), ptr.To(corev1.PreemptLowerPriority)
	for _, test := range []struct {
		name        string
		gate        bool
		source      podgroup.Source
		ofGroup     *corev1.PreemptionPolicy
		ofPod, want *corev1.PreemptionPolicy
	}{
		{"gate off, the pod may not", false, podgroup.Kubernetes, lower, never, never},
		{"gate off, the group may not", false, podgroup.Kubernetes, never, lower, lower},
		{"gate on, the pod may not", true, podgroup.Kubernetes, lower, never, lower},
		{"gate on, the group may not", true, podgroup.Kubernetes, never, lower, never},
		{"gate on, the group has no policy", true, podgroup.Kubernetes, nil, never, lower},
		{"gate on, scheduler-plugins", true, podgroup.SchedulerPlugins, nil, never, never},
	} {
		t.Run(test.name, func(t *testing.T) {
			registry := podgroup.NewRegistry()
			group := podgroup.Group{Key: podgroup.Key{Source: test.source, Namespace: "ml", Name: "g"}, MinMember: 1,
				EvictedWhole: true, PreemptionPolicy: test.ofGroup}
			registry.SetGroup(group)
			plugin := &Plugin{handle: &handle{}, finder: finder{groupPolicies: test.gate,
				victims: newVictimGroups(nil, registry)}}
			pod := &corev1.Pod{}
			pod.Namespace, pod.Spec.PreemptionPolicy = "ml", test.ofPod
			if test.source == podgroup.Kubernetes {
				pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("g")}
			} else {
				pod.Labels = map[string]string{podgroup.Label: "g"}
			}
			if got := plugin.finder.preemptsNever(pod); got != (*test.want == corev1.PreemptNever) {
				t.Errorf("the pod never preempts: %v", got)
			}
			ok, message := plugin.GroupMayPreempt(&group, []*corev1.Pod{pod})
			if ok != (*test.want == corev1.PreemptLowerPriority) || ok != (message == "") {
				t.Errorf("the group may preempt: %v, %q", ok, message)
			}
		})
	}
}

// The policy of the root counts in place of those of the pods of its tree, with the feature gate.
// Some of the names are those of kube-scheduler's own cases.
func TestPreemptionPolicyOfATree(t *testing.T) {
	never, lower := ptr.To(corev1.PreemptNever), ptr.To(corev1.PreemptLowerPriority)
	for _, test := range []struct {
		name         string
		gate         bool
		ofRoot       *corev1.PreemptionPolicy
		ofPods, want *corev1.PreemptionPolicy
	}{
		{"CPG with PreemptNever Policy", true, never, never, never},
		{"CPG with PreemptLowerPriority Policy", true, lower, lower, lower},
		{"gate on, the root may not", true, never, lower, never},
		{"gate on, the pods may not", true, lower, never, lower},
		{"gate on, the root has no policy", true, nil, never, lower},
		{"gate off, the root may not", false, never, lower, lower},
		{"gate off, the pods may not", false, lower, never, never},
	} {
		t.Run(test.name, func(t *testing.T) {
			registry := podgroup.NewRegistry()
			registry.SetServed(podgroup.Composite, func() bool { return true }, nil)
			registry.SetComposite(podgroup.CompositeGroup{Key: podgroup.CompositeKey("ml", "root"), MinGroups: 1,
				PreemptionPolicy: test.ofRoot})
			leaf := podgroup.Key{Source: podgroup.Kubernetes, Namespace: "ml", Name: "g"}
			registry.SetGroup(podgroup.Group{Key: leaf, MinMember: 1, Parent: "root"})
			tree, problem := registry.TreeOf(leaf)
			if problem != "" {
				t.Fatal(problem)
			}
			pod := &corev1.Pod{}
			pod.Spec.PreemptionPolicy = test.ofPods
			plugin := &Plugin{handle: &handle{}, finder: finder{groupPolicies: test.gate}}
			if ok, message := plugin.GroupMayPreempt(&tree.Group, []*corev1.Pod{pod}); ok !=
				(*test.want == corev1.PreemptLowerPriority) || ok != (message == "") {
				t.Errorf("the tree may preempt: %v, %q", ok, message)
			}
		})
	}
}

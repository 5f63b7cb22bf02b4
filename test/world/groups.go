// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// groups are what the world knows of PodGroups beyond their objects, by name. Names are not used
// again.
type groups struct {
	// templates are pods like those of a group.
	templates map[string]*corev1.Pod
	// plain are the groups whose pods only need resources.
	plain map[string]bool
	// broken are the groups that have lost a pod with a node, or whose minimum has changed. They
	// may rest with fewer pods than they need.
	broken map[string]bool
}

// maxGroups is how many groups there are at most.
const maxGroups = 5

// changeGroups creates a group and its pods, changes or deletes one, or some pods of one.
func (w *World) changeGroups(r *rand.Rand) {
	known := sorted(w.cluster.groups)
	kind := r.IntN(8)
	if len(known) == 0 || kind < 3 && len(known) < maxGroups {
		w.addGroup(r)
		return
	}
	group := one(r, known).DeepCopy()
	name := group.GetName()
	members := w.members(name)
	switch {
	case kind == 4:
		w.addMembers(r, name, 1+r.IntN(2))
	case kind == 5:
		w.log.add("change group %s", name)
		w.cluster.gangs.broken[name] = true
		w.must(unstructured.SetNestedField(group.Object, int64(1+r.IntN(4)), "spec", "minMember"))
		w.must(w.cluster.objects.Update(w.ctx, group))
	case kind > 5 && len(members) > 0:
		w.deletePod(one(r, members))
	default:
		w.log.add("delete group %s", name)
		w.must(w.cluster.objects.Delete(w.ctx, group))
		for _, pod := range members {
			w.deletePod(pod)
		}
	}
}

// addGroup creates a group and pods, in some order, enough or not.
func (w *World) addGroup(r *rand.Rand) {
	w.counts["groups"]++
	name := fmt.Sprintf("group-%d", w.counts["groups"])
	least := 2 + r.IntN(3)
	template := w.newPod(r)
	if plain := r.IntN(3) > 0; plain {
		w.cluster.gangs.plain[name] = true
		template.Spec = corev1.PodSpec{SchedulerName: template.Spec.SchedulerName, Containers: template.Spec.Containers,
			Priority: template.Spec.Priority, PreemptionPolicy: template.Spec.PreemptionPolicy}
		template.Spec.Containers[0].Ports = nil
	}
	template.Labels[podgroup.Label] = name
	w.cluster.gangs.templates[name] = template
	group := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"minMember": int64(least)}}}
	group.SetGroupVersionKind(podgroup.Kind)
	group.SetNamespace(metav1.NamespaceDefault)
	group.SetName(name)
	if r.IntN(4) == 0 {
		group.SetAnnotations(map[string]string{podgroup.AnnotationDisruptionMode: "PodGroup"})
	}
	first := r.IntN(least + 1)
	w.addMembers(r, name, first)
	w.log.add("create group %s of %d", name, least)
	w.must(w.cluster.objects.Create(w.ctx, group))
	w.addMembers(r, name, least-first-1+r.IntN(4))
}

func (w *World) addMembers(r *rand.Rand, group string, n int) {
	for range n {
		w.counts["members"]++
		pod := w.cluster.gangs.templates[group].DeepCopy()
		pod.Name = fmt.Sprintf("%s-%d", group, w.counts["members"])
		w.log.add("create pod %s", pod.Name)
		w.must(w.cluster.objects.Create(w.ctx, pod))
	}
}

// groupOf returns the name of the group of a pod, "" if it has none.
func groupOf(pod *corev1.Pod) string { return pod.Labels[podgroup.Label] }

// members returns the pods of a group that do not end.
func (w *World) members(group string) (pods []*corev1.Pod) {
	for _, pod := range sorted(w.cluster.pods) {
		if groupOf(pod) == group && pod.DeletionTimestamp == nil {
			pods = append(pods, pod)
		}
	}
	return pods
}

// memberChanged sees a change of a pod.
func (w *World) memberChanged(before, after *corev1.Pod) {
	if before != nil && before.Spec.NodeName != "" && (after == nil || after.DeletionTimestamp != nil) {
		w.cluster.gangs.broken[groupOf(before)] = true
	}
}

// checkGroups checks that groups have enough pods with nodes, or none, and that those that have
// none fit nowhere.
func (w *World) checkGroups(judge *judge) {
	for _, object := range sorted(w.cluster.groups) {
		least, _, err := unstructured.NestedInt64(object.Object, "spec", "minMember")
		w.must(err)
		g := gang{world: w, name: object.GetName(), least: int(least)}
		for _, pod := range w.members(g.name) {
			if pod.Spec.NodeName == "" {
				g.pending = append(g.pending, pod)
			} else {
				g.bound++
			}
		}
		g.check(judge)
	}
}

// gang is a group at rest.
type gang struct {
	world   *World
	name    string
	least   int
	bound   int
	pending []*corev1.Pod
}

// waits reports whether a pod waits for more than a node of its own: pods of a group that lacks
// pods do.
func (w *World) waits(pod *corev1.Pod) bool {
	name := groupOf(pod)
	if name == "" {
		return false
	}
	group := w.cluster.groups[groupKey(name)]
	if group == nil {
		return true
	}
	least, _, _ := unstructured.NestedInt64(group.Object, "spec", "minMember")
	bound := 0
	for _, member := range w.members(name) {
		if member.Spec.NodeName != "" {
			bound++
		}
	}
	return bound < int(least)
}

const groupPrefix = "/registry/scheduling.x-k8s.io/podgroups/"

func groupKey(name string) string { return groupPrefix + metav1.NamespaceDefault + "/" + name }

func (g *gang) check(judge *judge) {
	w := g.world
	if g.bound >= g.least {
		return // its other pods are like pods without a group
	}
	// Bindings that fail because of faults are tried again one by one, when others may have taken
	// the room.
	if g.bound > 0 && !w.cluster.gangs.broken[g.name] && !w.troubled {
		w.fail("group %s rests with %d of %d pods", g.name, g.bound, g.least)
		return
	}
	// Pods that only need resources are alike: in which order they are placed does not matter.
	if g.bound+len(g.pending) < g.least || !w.cluster.gangs.plain[g.name] {
		return
	}
	w.counts["groups judged"]++
	if n := judge.room(g.pending); g.bound+n >= g.least {
		w.fail("group %s rests with %d of %d pods, and %d more fit", g.name, g.bound, g.least, n)
		return
	}
	if policy := g.pending[0].Spec.PreemptionPolicy; policy != nil && *policy == corev1.PreemptNever {
		return
	}
	defer judge.without(corev1helpers.PodPriority(g.pending[0]))()
	if n := judge.room(g.pending); g.bound+n >= g.least {
		w.fail("group %s rests with %d of %d pods, and %d more fit without less important pods", g.name, g.bound,
			g.least, n)
	}
}

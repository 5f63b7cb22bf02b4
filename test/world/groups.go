// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"math/rand/v2"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// maxGroups is how many groups there are at most.
const maxGroups = 5

// changeGroups creates a group and its pods, changes or deletes one, or some pods of one.
func (w *World) changeGroups(r *rand.Rand) {
	known := sorted(w.cluster.groups)
	kind := r.IntN(9)
	if orphan := w.withoutGroup(func(name string) bool { return !strings.HasPrefix(name, podGroupName) }); kind == 8 &&
		orphan != "" {
		w.cluster.gangs.broken[orphan] = true
		w.createGroup(r, orphan, 1+r.IntN(4))
		return
	}
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
	case kind > 5 && len(members) > 0 && r.IntN(3) > 0:
		w.deletePod(one(r, members))
	default:
		w.log.add("delete group %s", name)
		w.must(w.cluster.objects.Delete(w.ctx, group))
		if r.IntN(2) == 0 { // its pods stay
			return
		}
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
	w.newMember(r, name).Labels[podgroup.Label] = name
	first := r.IntN(least + 1)
	w.addMembers(r, name, first)
	w.createGroup(r, name, least)
	w.addMembers(r, name, least-first-1+r.IntN(4))
}

func (w *World) createGroup(r *rand.Rand, name string, least int) {
	group := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"minMember": int64(least)}}}
	group.SetGroupVersionKind(podgroup.Kind)
	group.SetNamespace(metav1.NamespaceDefault)
	group.SetName(name)
	if r.IntN(4) == 0 {
		group.SetAnnotations(map[string]string{podgroup.AnnotationDisruptionMode: "PodGroup"})
	}
	w.log.add("create group %s of %d", name, least)
	w.must(w.cluster.objects.Create(w.ctx, group))
}

// withoutGroup returns the name of a group with pods that does not exist, "" if there is none.
func (w *World) withoutGroup(ofKind func(name string) bool) string {
	for _, pod := range sorted(w.cluster.pods) {
		name := groupOf(pod)
		if _, exists := w.least(name); name != "" && !exists && w.cluster.gangs.templates[name] != nil && ofKind(name) {
			return name
		}
	}
	return ""
}

// newMember returns the pod that those of a new group are like, which the caller may change.
func (w *World) newMember(r *rand.Rand, group string) *corev1.Pod {
	template := w.newPod(r)
	if plain := r.IntN(3) > 0; plain {
		w.cluster.gangs.plain[group] = true
		template.Spec = corev1.PodSpec{SchedulerName: template.Spec.SchedulerName, Containers: template.Spec.Containers,
			Priority: template.Spec.Priority, PreemptionPolicy: template.Spec.PreemptionPolicy}
		template.Spec.Containers[0].Ports = nil
		withoutDevices(template)
	}
	w.cluster.gangs.templates[group] = template
	return template
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

const groupPrefix = "/registry/scheduling.x-k8s.io/podgroups/"

func groupKey(name string) string { return groupPrefix + metav1.NamespaceDefault + "/" + name }

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// groupKey identifies the pods of a group that are placed together.
type groupKey struct {
	podgroup.Key
	schedulerName string
}

// groupOf returns the group of a pod, which has no key if the pod is in no group.
func groupOf(pod *corev1.Pod, groups *podgroup.Registry) groupKey {
	key := podgroup.KeyOf(pod)
	if key == (podgroup.Key{}) || !groups.Applies(key) {
		return groupKey{}
	}
	return groupKey{key, pod.Spec.SchedulerName}
}

// subjectGroup is a group of subjects.
type subjectGroup struct {
	podgroup.Group
	// known reports whether the group has an object.
	known bool
	// members are the positions of the subjects, and pods are these.
	members []int
	pods    []*corev1.Pod
	// lifted reports whether one of them was on a node.
	lifted bool
	// staying are the nodes of the pods of the group that are no subjects.
	staying map[types.UID]string
}

// groupsOf returns the groups of subjects.
func groupsOf(subjects []subject, groups *podgroup.Registry) map[groupKey]*subjectGroup {
	found := map[groupKey]*subjectGroup{}
	for i := range subjects {
		pod := subjects[i].pod
		key := groupOf(pod, groups)
		if key == (groupKey{}) {
			continue
		}
		g := found[key]
		if g == nil {
			g = &subjectGroup{staying: map[types.UID]string{}}
			g.Group, _, g.known = groups.Get(key.Key)
			found[key] = g
		}
		g.members, g.pods = append(g.members, i), append(g.pods, pod)
		g.lifted = g.lifted || subjects[i].placed != nil
	}
	return found
}

// findStaying finds the pods of the groups on the nodes of a snapshot, which has no subjects.
func findStaying(found map[groupKey]*subjectGroup, snapshot *cache.Snapshot) {
	if len(found) == 0 {
		return
	}
	byKey := map[podgroup.Key][]*subjectGroup{} // pods of all schedulers count
	for key, g := range found {
		byKey[key.Key] = append(byKey[key.Key], g)
	}
	for _, node := range nodesOf(snapshot) {
		for _, info := range node.GetPods() {
			pod := info.GetPod()
			for _, g := range byKey[podgroup.KeyOf(pod)] {
				g.staying[pod.UID] = pod.Spec.NodeName
			}
		}
	}
}

// together reports whether the pods are placed together: not if there is no group, if its policy is
// to schedule them one by one, or if a plugin of the profile takes care of it. Pods that had a node
// without the group's object are decided one by one, too.
func (g *subjectGroup) together(ignoresPodGroups bool) bool {
	switch {
	case g == nil, g.OneByOne, !g.known && g.lifted:
		return false
	}
	return g.Source != podgroup.SchedulerPlugins || !ignoresPodGroups
}

// needed returns how many members must get a node together, and the nodes of other pods of the
// group. evicted are pods that have lost their nodes.
func (g *subjectGroup) needed(evicted sets.Set[types.UID]) (needed int, on sets.Set[string]) {
	on = sets.New[string]()
	needed = g.MinMember - g.Succeeded
	for uid, node := range g.staying {
		if !evicted.Has(uid) {
			needed--
			on.Insert(node)
		}
	}
	if g.lifted {
		// It has begun, and may have lost pods since.
		needed = min(needed, len(g.members))
	}
	return max(1, needed), on
}

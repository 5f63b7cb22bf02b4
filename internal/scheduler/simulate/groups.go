// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"

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

// groupOf returns the group of a pod, or the tree that it is in. It has no key if the pod is in no
// group.
func groupOf(pod *corev1.Pod, groups *podgroup.Registry) groupKey {
	key := podgroup.KeyOf(pod)
	if key == (podgroup.Key{}) || !groups.Applies(key) {
		return groupKey{}
	}
	return groupKey{groups.Unit(key), pod.Spec.SchedulerName}
}

// subjectGroup is a group of subjects, or all groups of a tree.
type subjectGroup struct {
	podgroup.Group
	// tree is nil for a group that belongs to none.
	tree *podgroup.Tree
	// missing is the object that the group lacks, "" if none.
	missing string
	// members are the positions of the subjects, and pods are these.
	members []int
	pods    []*corev1.Pod
	// lifted reports whether one of them was on a node.
	lifted bool
	// staying are the pods of the group on nodes that are no subjects.
	staying map[types.UID]*corev1.Pod
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
			g = newSubjectGroup(podgroup.KeyOf(pod), groups)
			found[key] = g
		}
		g.members, g.pods = append(g.members, i), append(g.pods, pod)
		g.lifted = g.lifted || subjects[i].placed != nil
	}
	return found
}

func newSubjectGroup(key podgroup.Key, groups *podgroup.Registry) *subjectGroup {
	g := &subjectGroup{staying: map[types.UID]*corev1.Pod{}}
	var known bool
	g.Group, _, known = groups.Get(key)
	tree, problem := groups.TreeOf(key)
	switch {
	case !known:
		g.missing = "there is no such PodGroup"
	case tree != nil:
		g.Group, g.tree = tree.Group, tree
	case problem != "":
		g.missing = problem
	}
	return g
}

// findStaying finds the pods of the groups on the nodes of a snapshot, which has no subjects.
func findStaying(found map[groupKey]*subjectGroup, snapshot *cache.Snapshot, groups *podgroup.Registry) {
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
			key := podgroup.KeyOf(pod)
			if key == (podgroup.Key{}) {
				continue
			}
			for _, g := range byKey[groups.Unit(key)] {
				g.staying[pod.UID] = pod
			}
		}
	}
}

// together reports whether the pods are placed together: not if there is no group, if its policy is
// to schedule them one by one, or if a plugin of the profile takes care of it. Pods that had a node
// without the objects that the group needs are decided one by one, too.
func (g *subjectGroup) together(ignoresPodGroups bool) bool {
	switch {
	case g == nil, g.OneByOne && g.missing == "", g.missing != "" && g.lifted:
		return false
	}
	return g.Source != podgroup.SchedulerPlugins || !ignoresPodGroups
}

// needed returns how many members must get a node together, and the nodes of other pods of the
// group. evicted are pods that have lost their nodes.
func (g *subjectGroup) needed(evicted sets.Set[types.UID]) (needed int, on sets.Set[string]) {
	on = sets.New[string]()
	needed = g.MinMember - g.Succeeded
	for uid, pod := range g.staying {
		if !evicted.Has(uid) {
			needed--
			on.Insert(pod.Spec.NodeName)
		}
	}
	if g.lifted {
		// It has begun, and may have lost pods since.
		needed = min(needed, len(g.members))
	}
	return max(1, needed), on
}

// leaves returns the states of the groups of pods of a tree. evicted is as for needed.
func (g *subjectGroup) leaves(evicted sets.Set[types.UID]) map[podgroup.Key]podgroup.Leaf {
	leaves := map[podgroup.Key]podgroup.Leaf{}
	for t := range g.tree.Leaves() {
		leaves[t.Key] = podgroup.Leaf{Missing: t.MinMember - t.Succeeded, On: sets.New[string]()}
	}
	for uid, pod := range g.staying {
		if key := podgroup.KeyOf(pod); !evicted.Has(uid) {
			leaf := leaves[key]
			leaf.Missing--
			leaf.On.Insert(pod.Spec.NodeName)
			leaves[key] = leaf
		}
	}
	if g.lifted { // as in needed; groups of which no pod is left are excused
		members := g.membersOf()
		for key, leaf := range leaves {
			leaf.Missing = min(leaf.Missing, members[key])
			leaves[key] = leaf
		}
	}
	return leaves
}

// awaited returns what pods wait for before they can be placed, by the groups that they name; not
// those that can be. needed is how many members must get a node, and leaves are the states of the
// groups of a tree.
func (g *subjectGroup) awaited(needed int, leaves map[podgroup.Key]podgroup.Leaf) map[podgroup.Key]string {
	members := g.membersOf()
	var ready sets.Set[podgroup.Key]
	var incomplete *podgroup.Tree
	if g.tree != nil {
		ready, incomplete = g.tree.Ready(func(t *podgroup.Tree) int { return leaves[t.Key].Missing - members[t.Key] })
	}
	awaited := map[podgroup.Key]string{}
	for key, pods := range members {
		if g.tree != nil {
			needed = leaves[key].Missing
		}
		switch {
		case g.missing != "":
			awaited[key] = fmt.Sprintf("%s: %s", key.WithKind(), g.missing)
		case pods < needed:
			awaited[key] = fmt.Sprintf("%s: %d pods must be placed together, but there are %d", key.WithKind(),
				needed, pods)
		case g.tree != nil && !ready.Has(key):
			awaited[key] = fmt.Sprintf("%s: %d groups must be placed together, but fewer have enough pods",
				incomplete.WithKind(), incomplete.MinGroups)
		}
	}
	return awaited
}

// membersOf returns how many subjects name each group of pods.
func (g *subjectGroup) membersOf() map[podgroup.Key]int {
	counts := map[podgroup.Key]int{}
	for _, pod := range g.pods {
		counts[podgroup.KeyOf(pod)]++
	}
	return counts
}

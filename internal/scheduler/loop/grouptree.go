// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// groups returns the groups of pods that have members: one, or some of a tree.
func (g *groupCycle) groups() []podgroup.Key {
	if g.Tree == nil {
		return []podgroup.Key{g.Group.Key}
	}
	var keys []podgroup.Key
	for key := range g.PlacedGroups() {
		keys = append(keys, key)
	}
	return keys
}

// groupsOf returns the groups of pods.
func (g *groupCycle) groupsOf(pods []*corev1.Pod) []podgroup.Key {
	if g.Tree == nil {
		return []podgroup.Key{g.Group.Key}
	}
	var keys []podgroup.Key
	for key := range countByGroup(pods) {
		keys = append(keys, key)
	}
	return keys
}

func countByGroup(pods []*corev1.Pod) map[podgroup.Key]int {
	counts := map[podgroup.Key]int{}
	for _, pod := range pods {
		counts[podgroup.KeyOf(pod)]++
	}
	return counts
}

// needsMoreThan reports whether more pods are needed now than these, which have got a node.
func (g *groupCycle) needsMoreThan(pods []*corev1.Pod) bool {
	groups := g.loop.Groups
	if g.Tree == nil {
		needed, known := groups.Needed(g.Group.Key)
		return known && needed > len(pods)
	}
	counts := countByGroup(pods)
	return !g.Tree.Enough(func(leaf *podgroup.Tree) int { return groups.Missing(leaf.Key) - counts[leaf.Key] })
}

// reportLeftOver reports in the objects of the groups of a tree that was placed without them that
// they got no nodes.
func (g *groupCycle) reportLeftOver() {
	if g.Tree == nil {
		return
	}
	placed := g.PlacedGroups()
	for i, m := range g.members {
		key := podgroup.KeyOf(m.pod.Pod)
		if status := g.Outcomes[i].Status; !placed[key] && status != nil {
			placed[key] = true // once
			g.loop.GroupConditions.Unschedulable(key, status.Message())
		}
	}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// Hide takes pods off their nodes, so that the scheduling loop can try what would fit without them.
// Show puts them back. In between, snapshots lack them. Everything else finds them where they are:
// they count in Size, forks have them as long as their node exists, and what the API server reports
// of them is stored. A pod that changes so that it matters to plugins is back at once. Hide ignores
// pods that are not in the cache.
func (c *Cache) Hide(pods ...*corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, pod := range pods {
		state, ok := c.pods[pod.UID]
		if !ok || state.hidden {
			continue
		}
		c.countHiddenLocked()
		c.removePodLocked(state)
		state.hidden = true
		c.addPodLocked(state)
	}
}

// Show puts all hidden pods back on their nodes.
func (c *Cache) Show() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, uids := range c.hidden {
		for _, uid := range slices.Clone(uids) {
			state := c.pods[uid]
			c.countHiddenLocked()
			c.removePodLocked(state)
			state.hidden = false
			c.addPodLocked(state)
		}
	}
}

// hideLocked notes that a pod of a node is hidden.
func (c *Cache) hideLocked(state podState) {
	if c.hidden == nil {
		c.hidden = map[string][]types.UID{}
	}
	name := state.info.Pod.Spec.NodeName
	c.hidden[name] = append(c.hidden[name], state.info.Pod.UID)
}

// unhideLocked reverts hideLocked.
func (c *Cache) unhideLocked(state podState) {
	name, uid := state.info.Pod.Spec.NodeName, state.info.Pod.UID
	rest := slices.DeleteFunc(c.hidden[name], func(other types.UID) bool { return other == uid })
	if len(rest) == 0 {
		delete(c.hidden, name)
		return
	}
	c.hidden[name] = rest
}

// hiddenOnLocked returns the hidden pods of a node.
func (c *Cache) hiddenOnLocked(name string) []*schedframework.PodInfo {
	var pods []*schedframework.PodInfo
	for _, uid := range c.hidden[name] {
		pods = append(pods, c.pods[uid].info)
	}
	return pods
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"k8s.io/apimachinery/pkg/types"
)

// forkBatch is the number of pods and nodes that Fork copies before it releases the lock for
// others.
const forkBatch = 1024

// Fork returns a copy of the cache as it is at one moment, when the call ends. What is done to one
// of the two does not change the other. The copy feeds a snapshot of its own. It lists the nodes in
// the same order, and does not know the classes of pods, which belong to the fast path of the
// original.
//
// The lock is held for short times only, in which nodes are copied with their pods. In the last
// one, which makes it one moment, Fork copies those again that have changed in the meantime, and
// visits the other nodes, but not their pods.
func (c *Cache) Fork() *Cache {
	sizes := c.nodeSizes()
	copied := make(map[*node]*forkedNode, len(sizes))
	var batch []*node
	size := 0
	flush := func() {
		c.mu.RLock()
		defer c.mu.RUnlock()
		for _, n := range batch {
			copied[n] = c.forkNodeLocked(n)
		}
		batch, size = batch[:0], 0
	}
	for n, pods := range sizes {
		batch = append(batch, n)
		if size += 1 + pods; size >= forkBatch {
			flush()
		}
	}
	flush()
	f := New()
	nodes, next, changes := c.forkRest(copied)
	f.adopt(nodes, next)
	f.changes = changes
	return f
}

// forkedNode is a node as it was copied.
type forkedNode struct {
	nodeFacts
	name    string
	changes uint64
	// zone and place are copies from the original. zone is nil for a placeholder.
	zone  *zone
	place uint64
	// assumed are the positions in pods of those that are assumed.
	assumed []int
}

// nodeSizes returns the nodes with the number of their pods, as they are now.
func (c *Cache) nodeSizes() map[*node]int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	sizes := make(map[*node]int, len(c.nodes))
	for _, n := range c.nodes {
		sizes[n] = len(n.pods)
	}
	return sizes
}

func (c *Cache) forkNodeLocked(n *node) *forkedNode {
	f := &forkedNode{nodeFacts: c.factsLocked(n), name: n.name, changes: n.changes, place: n.place}
	if n.zone != nil {
		z := *n.zone
		f.zone = &z
	}
	if c.assumed > 0 {
		for i, info := range f.pods {
			if c.pods[info.Pod.UID].assumed {
				f.assumed = append(f.assumed, i)
			}
		}
	}
	return f
}

// forkRest returns all nodes at one moment: as they were copied, or copied now if they have
// changed. next is the next number in the order of nodes, and changes the number of changes.
func (c *Cache) forkRest(copied map[*node]*forkedNode) (nodes []*forkedNode, next, changes uint64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	nodes = make([]*forkedNode, 0, len(c.nodes))
	for _, n := range c.nodes {
		f := copied[n]
		if f == nil || f.changes != n.changes {
			f = c.forkNodeLocked(n)
		}
		nodes = append(nodes, f)
	}
	return nodes, c.order.next, c.changes
}

// adopt fills an empty cache that is not in use yet.
func (c *Cache) adopt(nodes []*forkedNode, next uint64) {
	c.order.next = next
	pods := 0
	for _, f := range nodes {
		pods += len(f.pods)
	}
	c.nodes, c.pods = make(map[string]*node, len(nodes)), make(map[types.UID]podState, pods)
	for _, f := range nodes {
		n := &node{name: f.name, obj: f.obj, pods: f.pods, place: f.place, slot: noSlot}
		if f.zone != nil {
			n.zone = c.order.adopt(*f.zone)
		}
		c.nodes[n.name] = n
		for _, info := range f.pods {
			c.pods[info.Pod.UID] = podState{info: info, node: n}
		}
		for _, i := range f.assumed {
			c.pods[f.pods[i].Pod.UID] = podState{info: f.pods[i], node: n, assumed: true}
		}
		c.assumed += len(f.assumed)
	}
}

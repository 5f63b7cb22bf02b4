// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"cmp"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"
)

// Cache is what the cluster looks like, with what was assumed. See the package comment for how it
// works with [Snapshot].
//
// All methods may be called from any goroutine. Informer handlers report nodes and pods, the
// scheduling loop assumes and refreshes its snapshot, binding cycles forget. Each call holds mu for
// a time that depends on what it changes, never on the number of nodes or pods in the cache, but
// for Dump and the first UpdateSnapshot.
//
// Objects handed over are kept, not copied: neither the caller nor the cache may write to them
// afterwards.
type Cache struct {
	clock clock.WithTicker
	alike *alike

	// mu guards the fields below and everything reachable from them, except pod and node objects
	// and PodInfos, which are never written to once they are here, and what is inside the fed
	// snapshot, which belongs to the goroutine that refreshes it.
	mu sync.RWMutex
	// nodes by name. One without an object is a ghost: pods are on it, but the node itself is
	// unknown or was removed. Invariant: a ghost has at least one pod.
	nodes map[string]*node
	// pods by UID: those in the pods of some node. The values are small so that a million of them
	// stay cheap.
	pods map[types.UID]podState
	// assumed is the number of pods that are assumed.
	assumed int
	order   zoneOrder
	feed    feed
}

// node is a node, or the ghost of one.
type node struct {
	name string
	// obj is nil while the node is a ghost.
	obj *corev1.Node
	// pods are in the order of the Pods of the NodeInfo in the fed snapshot once that is up to
	// date.
	pods []*schedframework.PodInfo
	// zone and place say where the node comes in the order of nodes; zone is nil while the node is
	// a ghost.
	zone  *zone
	place uint64

	// slot is where the fed snapshot shows the node; noSlot if it does not, or if there is no such
	// snapshot.
	slot Slot
	// stale: the node is in feed.stale.
	stale bool
	// reborn: the node was removed and came back since the fed snapshot was refreshed.
	reborn bool
}

// podState is a pod and where it is.
type podState struct {
	info    *schedframework.PodInfo
	node    *node
	class   ClassID
	assumed bool
}

// New returns an empty cache.
func New() *Cache {
	return &Cache{
		clock: clock.RealClock{},
		alike: newAlike(),
		nodes: make(map[string]*node),
		pods:  make(map[types.UID]podState),
		order: zoneOrder{zones: make(map[string]*zone)},
		feed:  feed{limit: maxJournal},
	}
}

// NodeCount returns the number of nodes, ghosts included.
func (c *Cache) NodeCount() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.nodes)
}

// PodCount returns the number of pods, assumed ones and those on ghosts included.
func (c *Cache) PodCount() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.pods)
}

// nodeLocked returns the node of a name, a new ghost if there is none.
func (c *Cache) nodeLocked(name string) *node {
	n, ok := c.nodes[name]
	if !ok {
		n = &node{name: name, slot: noSlot}
		c.nodes[name] = n
	}
	return n
}

// dropIfEmptyLocked forgets a ghost that has lost its last pod.
func (c *Cache) dropIfEmptyLocked(n *node) {
	if n.obj == nil && len(n.pods) == 0 {
		delete(c.nodes, n.name)
	}
}

// placeLocked puts a pod on the node that its spec names, which may thereby come to be known.
func (c *Cache) placeLocked(state podState) {
	pod := state.info.Pod
	state.node = c.nodeLocked(pod.Spec.NodeName)
	state.node.pods = append(state.node.pods, state.info)
	c.pods[pod.UID] = state
	if state.assumed {
		c.assumed++
	}
	c.feed.record(delta{kind: podPlaced, node: state.node, info: state.info, class: state.class})
}

// takeLocked removes a pod from its node, and the node with it if it was all that kept a ghost.
func (c *Cache) takeLocked(state podState) {
	n := state.node
	i := slices.Index(n.pods, state.info)
	last := len(n.pods) - 1
	n.pods[i], n.pods[last] = n.pods[last], nil // as NodeInfo.RemovePod does it, so that the orders agree
	n.pods = n.pods[:last]
	delete(c.pods, state.info.Pod.UID)
	if state.assumed {
		c.assumed--
	}
	c.feed.record(delta{kind: podTaken, node: n, info: state.info, class: state.class})
	c.dropIfEmptyLocked(n)
}

// replaceLocked puts a newer object in the place of a pod's. Nothing that plugins go by has
// changed.
func (c *Cache) replaceLocked(state podState, info *schedframework.PodInfo) {
	n := state.node
	n.pods[slices.Index(n.pods, state.info)] = info
	old := state.info
	state.info = info
	if state.assumed {
		state.assumed = false
		c.assumed--
	}
	c.pods[info.Pod.UID] = state
	c.feed.record(delta{kind: podReplaced, node: n, info: info, old: old})
}

// UpdateSnapshot brings s up to date with the cache: afterwards it shows every node that has an
// object, with the pods on it, assumed ones included. Nobody may read s meanwhile.
//
// The first snapshot that is handed in is fed from then on: refreshing it costs what has happened
// since, its slots and NodeInfo pointers are stable and its change log goes on. Any other one is
// filled anew each time, which costs all nodes and pods, and its change log has a gap there. A
// scheduler has one snapshot.
//
// An error means that s had come apart from the cache; it has been put right before UpdateSnapshot
// returns.
func (c *Cache) UpdateSnapshot(logger klog.Logger, s *Snapshot) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.feed.snapshot == nil {
		c.feed.snapshot = s
	}
	s.beginRefresh()
	if c.feed.snapshot == s && s.source == c {
		return c.feed.flush(logger)
	}
	c.fillLocked(s)
	return nil
}

// fillLocked makes s anew. If it is the fed snapshot, this is what its feed goes on from.
func (c *Cache) fillLocked(s *Snapshot) {
	fed := c.feed.snapshot == s
	if fed {
		c.feed.clear()
		for _, n := range c.nodes {
			n.slot = noSlot
		}
	}
	s.reset(c)
	for _, n := range c.shownLocked() {
		slot := s.addNode(n)
		if fed {
			n.slot = slot
		}
	}
	s.log.cut()
}

// shownLocked returns the nodes that a snapshot shows, the longest known first.
func (c *Cache) shownLocked() []*node {
	shown := make([]*node, 0, len(c.nodes))
	for _, n := range c.nodes {
		if n.obj != nil {
			shown = append(shown, n)
		}
	}
	slices.SortFunc(shown, func(a, b *node) int { return cmp.Compare(a.place, b.place) })
	return shown
}

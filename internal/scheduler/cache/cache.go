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

	"github.com/livesched/livesched/internal/selfcheck"
)

// Cache holds the nodes and pods of the cluster, assumed pods included. The package comment
// describes how it works with [Snapshot].
//
// All methods are safe for concurrent use. Informer handlers report nodes and pods, the scheduling
// loop assumes pods and refreshes its snapshot, binding cycles forget pods. Each call holds mu for
// a time that depends on the size of the change, not on the number of nodes or pods in the cache,
// except Dump and the first UpdateSnapshot. Methods that need mu held end in Locked.
//
// The cache keeps the objects that it receives, without a copy: neither the caller nor the cache
// may modify them afterwards.
type Cache struct {
	clock    clock.WithTicker
	podInfos *podInfoCache

	// mu guards the fields below and everything reachable from them, with two exceptions: pod and
	// node objects and PodInfos are immutable, and the content of the fed snapshot belongs to the
	// goroutine that refreshes it.
	mu sync.RWMutex
	// nodes are the nodes by name. A node without an object is a placeholder: it has pods, but the
	// node itself is unknown or was removed. Invariant: a placeholder has at least one pod.
	nodes map[string]*node
	// pods are the pods of all nodes by UID. The values are small so that a million of them stay
	// cheap.
	pods map[types.UID]podState
	// assumed is the number of pods that are assumed.
	assumed int
	// changes counts the changes that a decision may depend on: see Snapshot.Changes.
	changes uint64
	order   zoneOrder
	feed    feed
}

// node is a node or a placeholder node.
type node struct {
	name string
	// obj is nil while the node is a placeholder.
	obj *corev1.Node
	// pods are in the order of NodeInfo.Pods in the fed snapshot, once that is up to date.
	pods []*schedframework.PodInfo
	// zone and place determine the node's position in the order of nodes. zone is nil while the
	// node is a placeholder.
	zone  *zone
	place uint64
	// changes counts the changes of the fields above.
	changes uint64

	// slot is the node's slot in the fed snapshot, noSlot if it has none or there is no fed
	// snapshot.
	slot Slot
	// stale means that the node is in feed.stale.
	stale bool
	// recreated means that the node was removed and added again since the last refresh of the fed
	// snapshot.
	recreated bool
}

// podState is a pod in the cache and its node.
type podState struct {
	info    *schedframework.PodInfo
	node    *node
	class   ClassID
	assumed bool
}

// New returns an empty cache.
func New() *Cache {
	return &Cache{
		clock:    clock.RealClock{},
		podInfos: newPodInfoCache(),
		nodes:    make(map[string]*node),
		pods:     make(map[types.UID]podState),
		order:    zoneOrder{zones: make(map[string]*zone)},
		feed:     feed{limit: maxJournal},
	}
}

// Size is the number of nodes and pods in a cache.
type Size struct {
	// Nodes includes placeholder nodes.
	Nodes int
	// Pods includes assumed pods, and those on placeholder nodes.
	Pods int
	// AssumedPods is the number of assumed pods.
	AssumedPods int
}

// Size returns the number of nodes and pods in the cache.
func (c *Cache) Size() Size {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return Size{Nodes: len(c.nodes), Pods: len(c.pods), AssumedPods: c.assumed}
}

// nodeLocked returns the node of a name. If there is none, it creates a placeholder.
func (c *Cache) nodeLocked(name string) *node {
	n, ok := c.nodes[name]
	if !ok {
		n = &node{name: name, slot: noSlot}
		c.nodes[name] = n
	}
	return n
}

// dropIfEmptyLocked removes a placeholder that has lost its last pod.
func (c *Cache) dropIfEmptyLocked(n *node) {
	if n.obj == nil && len(n.pods) == 0 {
		delete(c.nodes, n.name)
	}
}

// addPodLocked adds a pod to the node that its spec names, or to a placeholder for it.
func (c *Cache) addPodLocked(state podState) {
	n := c.enterPodLocked(state)
	c.feed.record(delta{kind: podPlaced, node: n, info: state.info, class: state.class})
}

// enterPodLocked is addPodLocked for a pod that the fed snapshot shows already. It returns the
// node.
func (c *Cache) enterPodLocked(state podState) *node {
	pod := state.info.Pod
	if state.assumed {
		c.assumed++
	}
	state.node = c.nodeLocked(pod.Spec.NodeName)
	state.node.pods = append(state.node.pods, state.info)
	state.node.changes++
	c.pods[pod.UID] = state
	return state.node
}

// removePodLocked removes a pod from its node, and a placeholder together with its last pod.
func (c *Cache) removePodLocked(state podState) {
	n := state.node
	delete(c.pods, state.info.Pod.UID)
	if state.assumed {
		c.assumed--
	}
	i := slices.Index(n.pods, state.info)
	last := len(n.pods) - 1
	n.pods[i], n.pods[last] = n.pods[last], nil // as NodeInfo.RemovePod does it, so that the orders agree
	n.pods = n.pods[:last]
	n.changes++
	c.feed.record(delta{kind: podTaken, node: n, info: state.info, class: state.class})
	c.dropIfEmptyLocked(n)
}

// replacePodLocked replaces the object of a pod by a newer one that is the same to every plugin.
func (c *Cache) replacePodLocked(state podState, info *schedframework.PodInfo) {
	n, old := state.node, state.info
	state.info = info
	if state.assumed {
		state.assumed = false
		c.assumed--
	}
	c.pods[info.Pod.UID] = state
	n.pods[slices.Index(n.pods, old)] = info
	n.changes++
	c.feed.record(delta{kind: podReplaced, node: n, info: info, old: old})
}

// UpdateSnapshot brings s up to date with the cache: afterwards s holds every node that has an
// object, with the pods on it, assumed ones included. s must not be read during the call.
//
// The first snapshot passed in becomes the fed one. From then on a refresh costs
// only the changes since the last one, its slots and NodeInfo pointers are stable, and its change
// log continues. Any other snapshot is filled from scratch each time, at the cost of all nodes and
// pods, which leaves a gap in its change log. A scheduler has one snapshot.
//
// An error means that s did not match the cache. It has been repaired before UpdateSnapshot
// returns. While there is an [Overlay] on s, UpdateSnapshot does nothing.
func (c *Cache) UpdateSnapshot(logger klog.Logger, s *Snapshot) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.overlay != nil {
		return nil
	}
	if c.feed.snapshot == nil {
		c.feed.snapshot = s
	}
	s.beginRefresh()
	s.changes = c.changes
	var err error
	if c.feed.snapshot == s && s.source == c {
		err = c.feed.flush(logger)
	} else {
		c.fillLocked(s)
	}
	if selfcheck.Wanted(len(c.pods) + len(c.nodes)) {
		selfcheck.Report(c.checkLocked(s))
	}
	return err
}

// Changes is Snapshot.Changes of a snapshot that would be refreshed now.
func (c *Cache) Changes() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.changes
}

// refill fills s from scratch.
func (c *Cache) refill(s *Snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.changes = c.changes
	c.fillLocked(s)
}

// fillLocked fills s from scratch. If s is the fed snapshot, the feed continues from this state.
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
	s.starts.cut()
}

// shownLocked returns the nodes that a snapshot holds, in the order in which they were added.
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

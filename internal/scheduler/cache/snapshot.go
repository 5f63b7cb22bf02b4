// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"sync"
	"sync/atomic"

	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// Slot is the place of a node in a snapshot: a small number that the node keeps as long as it
// lives. Slots of nodes that are gone are given to new ones; slots are never re-ordered.
type Slot int32

const noSlot Slot = -1

// Snapshot is the cluster as it was at the last [Cache.UpdateSnapshot]: what plugins and the
// algorithm decide on. It is one object for the life of a scheduler, since plugins keep the
// pointer, and is refreshed in place.
//
// It belongs to the goroutine of the scheduling loop. That goroutine refreshes it between two
// cycles; during a cycle nobody writes to it, and any number of goroutines may read it. Nothing
// that its methods return may be written to. A NodeInfo is the same object as long as its node
// lives, with contents that change at refreshes. PodInfos are never written to and may be kept. As
// everywhere in Kubernetes, nobody may read the snapshot in a binding cycle.
//
// Lists and topologies are made when they are first asked for, from whatever goroutine, and kept
// until a refresh changes what is in them. Apart from those, a reader takes no lock.
type Snapshot struct {
	// source is the cache that the snapshot was last filled from.
	source    *Cache
	refreshes uint64

	// infos by slot, nil where the slot is free.
	infos []*schedframework.NodeInfo
	// versions by slot; version is the last one that was given to one.
	versions []uint64
	version  uint64
	slots    map[string]Slot
	free     []Slot
	log      Log
	tree     nodeTree

	// Sets of nodes by the pods on them.
	withAffinity             Bitset
	withRequiredAntiAffinity Bitset
	withPVCs                 Bitset

	pvcs       pvcUsers
	priorities priorities
	images     imageStates

	// lazy guards topologies, signatures and epochs between refreshes, and the making of the lists.
	// A list that is nil has to be made, as have signatures.
	lazy                         sync.Mutex
	topologies                   map[string]*Topology
	signatures                   *Signatures
	epochs                       uint64
	listed                       atomic.Pointer[nodeOrder]
	listWithAffinity             atomic.Pointer[[]fwk.NodeInfo]
	listWithRequiredAntiAffinity atomic.Pointer[[]fwk.NodeInfo]
}

var _ fwk.SharedLister = (*Snapshot)(nil)

// NewSnapshot returns a snapshot of nothing.
func NewSnapshot() *Snapshot {
	s := &Snapshot{log: Log{first: 1}}
	s.reset(nil)
	return s
}

// reset empties the snapshot, to be filled from a cache. The log is not touched.
func (s *Snapshot) reset(source *Cache) {
	s.source = source
	s.infos, s.versions, s.slots, s.free = nil, nil, make(map[string]Slot), nil
	s.tree = nodeTree{}
	s.withAffinity, s.withRequiredAntiAffinity, s.withPVCs = Bitset{}, Bitset{}, Bitset{}
	s.pvcs, s.priorities = make(pvcUsers), make(priorities)
	s.images = imageStates{summaries: make(map[string]*fwk.ImageStateSummary), epoch: s.images.epoch + 1}
	s.topologies = make(map[string]*Topology)
	s.signatures = nil
	s.orderChanged()
}

// orderChanged lets go of the lists.
func (s *Snapshot) orderChanged() {
	s.listed.Store(nil)
	s.listWithAffinity.Store(nil)
	s.listWithRequiredAntiAffinity.Store(nil)
}

// Slots is greater than every slot in use. Arrays by slot have to be this long.
func (s *Snapshot) Slots() int { return len(s.infos) }

// Alive says whether there is a node in a slot.
func (s *Snapshot) Alive(slot Slot) bool { return s.infos[slot] != nil }

// Info returns the node in a slot, nil if there is none.
func (s *Snapshot) Info(slot Slot) *schedframework.NodeInfo { return s.infos[slot] }

// Version is another number than any before as soon as anything has changed on the node in a slot
// that its NodeInfo shows, be it the status of a pod there, of which the change log says nothing. A
// change of the node object of which the log says nothing does not count.
func (s *Snapshot) Version(slot Slot) uint64 { return s.versions[slot] }

// SlotOf returns the slot of a node.
func (s *Snapshot) SlotOf(nodeName string) (Slot, bool) {
	slot, ok := s.slots[nodeName]
	return slot, ok
}

// NumNodes is the number of nodes.
func (s *Snapshot) NumNodes() int { return len(s.slots) }

// Order returns the slots in the order in which nodes are sampled: the one of List. It costs all
// nodes after one has come, gone, or moved to another zone.
func (s *Snapshot) Order() []Slot { return s.ordered().slots }

// Log returns the change log.
func (s *Snapshot) Log() *Log { return &s.log }

// WithAffinity is the set of nodes with pods that have pod affinity or anti-affinity.
func (s *Snapshot) WithAffinity() Bitset { return s.withAffinity }

// WithRequiredAntiAffinity is the set of nodes with pods that have required pod anti-affinity.
func (s *Snapshot) WithRequiredAntiAffinity() Bitset { return s.withRequiredAntiAffinity }

// WithPVCs is the set of nodes with pods that use PersistentVolumeClaims.
func (s *Snapshot) WithPVCs() Bitset { return s.withPVCs }

// ImagesEpoch moves whenever the number of nodes that have some image changes, and with it the
// ImageStates of all nodes that have it, of which the change log says nothing.
func (s *Snapshot) ImagesEpoch() uint64 { return s.images.epoch }

// NodeInfos returns the lister of nodes.
func (s *Snapshot) NodeInfos() fwk.NodeInfoLister { return s }

// StorageInfos returns the lister of claims in use.
func (s *Snapshot) StorageInfos() fwk.StorageInfoLister { return s }

// PodGroupStates returns the lister of pod groups. There are none: pod groups come with the feature
// gate GenericWorkload, which livesched refuses.
func (s *Snapshot) PodGroupStates() fwk.PodGroupStateLister { return noPodGroups{} }

type noPodGroups struct{}

// Get returns an error: the group is not known.
func (noPodGroups) Get(namespace, podGroupName string) (fwk.PodGroupState, error) {
	return nil, fmt.Errorf("pod group %s/%s is not known: pod groups are not supported", namespace, podGroupName)
}

// List returns the nodes, one of each zone in turn.
func (s *Snapshot) List() ([]fwk.NodeInfo, error) { return s.ordered().infos, nil }

// HavePodsWithAffinityList returns the nodes with pods that have pod affinity or anti-affinity, in
// the order of List.
func (s *Snapshot) HavePodsWithAffinityList() ([]fwk.NodeInfo, error) {
	return s.list(&s.listWithAffinity, &s.withAffinity), nil
}

// HavePodsWithRequiredAntiAffinityList returns the nodes with pods that have required pod
// anti-affinity, in the order of List.
func (s *Snapshot) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) {
	return s.list(&s.listWithRequiredAntiAffinity, &s.withRequiredAntiAffinity), nil
}

// list returns a kept list of the nodes in a set, making it if it was let go of.
func (s *Snapshot) list(kept *atomic.Pointer[[]fwk.NodeInfo], set *Bitset) []fwk.NodeInfo {
	if list := kept.Load(); list != nil {
		return *list
	}
	order := s.ordered()
	s.lazy.Lock()
	defer s.lazy.Unlock()
	if list := kept.Load(); list != nil {
		return *list
	}
	list := order.subset(*set)
	kept.Store(&list)
	return list
}

// Get returns a node by name.
func (s *Snapshot) Get(nodeName string) (fwk.NodeInfo, error) {
	slot, ok := s.slots[nodeName]
	if !ok {
		return nil, fmt.Errorf("nodeinfo not found for node name %q", nodeName)
	}
	return s.infos[slot], nil
}

// IsPVCUsedByPods says whether a pod uses the claim of a key such as "namespace/name".
func (s *Snapshot) IsPVCUsedByPods(key string) bool { return s.pvcs.used(key) }

// HasPodsBelow says whether a pod on some node has a lower priority than this.
func (s *Snapshot) HasPodsBelow(priority int32) bool { return s.priorities.below(priority) }

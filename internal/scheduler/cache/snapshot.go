// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"sync"
	"sync/atomic"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// Slot is the index of a node in a snapshot: a small number that the node keeps until it is
// removed. New nodes reuse the slots of removed ones; slots are never reordered.
type Slot int32

const noSlot Slot = -1

// Snapshot is the state of the cluster at the last [Cache.UpdateSnapshot], perhaps with an
// [Overlay]. Plugins and the scheduling algorithm read it. There is one object for the life of a
// scheduler, refreshed in place, since plugins keep the pointer.
//
// It belongs to the goroutine of the scheduling loop, which refreshes it between two scheduling
// cycles. During a cycle it does not change, and any number of goroutines may read it. The values
// that its methods return must not be modified. A node has the same NodeInfo object until it is
// removed; its content changes at refreshes. PodInfos are immutable and may be kept. As everywhere
// in Kubernetes, the snapshot must not be read in a binding cycle.
//
// Lists, topologies and signatures are computed on first use, on any goroutine. Lists are kept
// until a refresh changes them; topologies and signatures are updated by refreshes. All other reads
// take no lock.
type Snapshot struct {
	// source is the cache that the snapshot was last filled from.
	source    *Cache
	refreshes uint64
	changes   uint64
	// overlay is nil if there is none.
	overlay *Overlay

	// infos are the nodes by slot, nil for free slots.
	infos []*schedframework.NodeInfo
	// versions are the versions by slot; version is the last one assigned.
	versions []uint64
	version  uint64
	slots    map[string]Slot
	free     []Slot
	log      Log
	starts   Log
	tree     nodeTree

	// Sets of nodes by the pods on them.
	withAffinity             Bitset
	withRequiredAntiAffinity Bitset

	pvcs       pvcUsers
	priorities priorities
	images     imageStates
	// topologyBytes is the memory that topologies may take at least.
	topologyBytes int

	// lazy guards topologies, nowhere, label keys, signatures and epochs between refreshes, and the
	// computation of lists. A nil list, or nil signatures, must be computed.
	lazy                         sync.Mutex
	topologies                   map[string]*Topology
	nowhere                      *Topology        // of the keys that no node has; nil until needed
	labelKeys                    sets.Set[string] // nil until HasLabel needs it
	labelsEpoch                  uint64
	signatures                   *Signatures
	epochs                       uint64
	listed                       atomic.Pointer[nodeOrder]
	listWithAffinity             atomic.Pointer[[]fwk.NodeInfo]
	listWithRequiredAntiAffinity atomic.Pointer[[]fwk.NodeInfo]
}

var _ fwk.SharedLister = (*Snapshot)(nil)

// NewSnapshot returns an empty snapshot.
func NewSnapshot() *Snapshot {
	s := &Snapshot{topologyBytes: minTopologyBytes}
	s.reset(nil)
	return s
}

// reset empties the snapshot, to be filled from a cache. It keeps the logs.
func (s *Snapshot) reset(source *Cache) {
	s.source = source
	s.infos, s.versions, s.slots, s.free = nil, nil, make(map[string]Slot), nil
	s.tree = nodeTree{}
	s.withAffinity, s.withRequiredAntiAffinity = Bitset{}, Bitset{}
	s.pvcs, s.priorities = make(pvcUsers), make(priorities)
	s.images = imageStates{summaries: make(map[string]*fwk.ImageStateSummary), epoch: s.images.epoch + 1}
	s.topologies, s.nowhere = make(map[string]*Topology), nil
	s.labelKeys = nil
	s.labelsEpoch++
	s.signatures = nil
	s.orderChanged()
}

// orderChanged drops the lists.
func (s *Snapshot) orderChanged() {
	s.listed.Store(nil)
	s.listWithAffinity.Store(nil)
	s.listWithRequiredAntiAffinity.Store(nil)
}

// Slots returns the length that arrays indexed by slot must have.
func (s *Snapshot) Slots() int { return len(s.infos) }

// Alive reports whether there is a node in a slot.
func (s *Snapshot) Alive(slot Slot) bool { return s.infos[slot] != nil }

// Info returns the node in a slot, nil if there is none.
func (s *Snapshot) Info(slot Slot) *schedframework.NodeInfo { return s.infos[slot] }

// Version returns the version of a slot. Any change of its NodeInfo sets a new version that was
// never used before, even a change of a pod's status, which has no entry in the change log. Changes
// of the node object without an entry in the log do not change the version.
func (s *Snapshot) Version(slot Slot) uint64 { return s.versions[slot] }

// SlotOf returns the slot of a node.
func (s *Snapshot) SlotOf(nodeName string) (Slot, bool) {
	slot, ok := s.slots[nodeName]
	return slot, ok
}

// NumNodes returns the number of nodes.
func (s *Snapshot) NumNodes() int { return len(s.slots) }

// Log returns the change log.
func (s *Snapshot) Log() *Log { return &s.log }

// Starts returns the log of pods whose start time has changed without an entry in the change log.
// Preemption compares pods by it; to all other plugins, such a pod is the same as before. Only the
// slots of its entries are set, and it keeps at least 8192 of them.
func (s *Snapshot) Starts() *Log { return &s.starts }

// Changes returns the number of changes of nodes and pods, since the cache was made, that a
// decision may depend on. Each of these counts as one: a node is added, changed or removed; a pod
// is assumed, forgotten, added, changed or removed. The confirmation of an assumed pod on its node
// does not count, even if binding has set labels (SetByBinding), nor does what an [Overlay] tries.
// Of two snapshots of a cache, or of a cache and a fork of it, that differ in n changes, the later
// one shows n changes that the other does not.
func (s *Snapshot) Changes() uint64 { return s.changes }

// WithAffinity returns the set of nodes with pods that have pod affinity or anti-affinity.
func (s *Snapshot) WithAffinity() Bitset { return s.withAffinity }

// ImagesEpoch changes whenever the number of nodes with some image does. That changes the
// ImageStates of all nodes with the image, for which the change log has no entries.
func (s *Snapshot) ImagesEpoch() uint64 { return s.images.epoch }

// NodeInfos returns the lister of nodes.
func (s *Snapshot) NodeInfos() fwk.NodeInfoLister { return s }

// StorageInfos returns the lister of claims in use.
func (s *Snapshot) StorageInfos() fwk.StorageInfoLister { return s }

// PodGroups returns the lister of pod groups.
func (s *Snapshot) PodGroups() fwk.PodGroupLister { return noGroups[*schedulingv1beta1.PodGroup]{} }

// PodGroupStates returns the lister of the states of pod groups.
func (s *Snapshot) PodGroupStates() fwk.PodGroupStateLister { return noGroups[fwk.PodGroupState]{} }

// CompositePodGroups returns the lister of groups of groups.
func (s *Snapshot) CompositePodGroups() fwk.CompositePodGroupLister {
	return noGroups[*schedulingv1alpha3.CompositePodGroup]{}
}

// CompositePodGroupStates returns the lister of the states of groups of groups.
func (s *Snapshot) CompositePodGroupStates() fwk.CompositePodGroupStateLister {
	return noGroups[fwk.CompositePodGroupState]{}
}

// noGroups is a lister without groups. livesched keeps pod groups in a form of its own: see package
// podgroup.
type noGroups[T any] struct{}

// Get returns an error: the group is not known.
func (noGroups[T]) Get(namespace, name string) (none T, _ error) {
	return none, fmt.Errorf("pod group %s/%s is not known: livesched offers plugins no pod groups", namespace, name)
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

// HavePodsWithRequiredNonHostScopedAntiAffinityList returns no nodes, as without the feature gate
// InterPodAffinityHostnameFastPath.
func (s *Snapshot) HavePodsWithRequiredNonHostScopedAntiAffinityList() ([]fwk.NodeInfo, error) {
	return nil, nil
}

// list returns the cached list of the nodes in a set, and computes it if it was dropped.
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

// IsPVCUsedByPods reports whether a pod uses the claim with a key such as "namespace/name".
func (s *Snapshot) IsPVCUsedByPods(key string) bool { return s.pvcs.used(key) }

// HasPodsBelow reports whether a pod on any node has a priority below the given one.
func (s *Snapshot) HasPodsBelow(priority int32) bool { return s.priorities.below(priority) }

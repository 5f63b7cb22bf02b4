// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// The keys of topologies come from pods, so any user can add one for each label key of a node.
// Their memory is limited to minTopologyBytes, or that of topologyColumns if that is more.
const (
	minTopologyBytes = 32 << 20
	topologyColumns  = 64
)

// Topology numbers the domains of a topology key, such as the values of the label
// topology.kubernetes.io/zone, and holds the domain of each slot. Every refresh updates it.
//
// Callers must get it from [Snapshot.Topo] in each cycle. Between refreshes any number of
// goroutines may read it.
type Topology struct {
	key string
	// asked is the refresh after which the topology was last used.
	asked uint64
	// of holds the domain by slot, -1 for a slot without a node or a node without the label.
	of []int32
	// domains are the domains by number. The numbers of those without nodes are in free.
	domains []domain
	free    []int32
	// ids holds the numbers of the domains with nodes, by label value.
	ids map[string]int32
	// resized counts the domains that became large, or small again.
	resized uint64
	// lazy guards members until they are made, between refreshes.
	lazy    sync.Mutex
	members *members // nil until AppendMembers needs them
}

type domain struct {
	value string
	nodes int32
	large bool
}

// A domain with more nodes than maxSmall is large until it has no more than minLarge. In between it
// stays as it is, so that few nodes that come and go do not change it all the time.
const (
	maxSmall = 16
	minLarge = 8
)

// Domains returns the domain of each slot, -1 where the node lacks the label or there is no node.
// An empty label value is a domain like any other. The slice has the length Snapshot.Slots and must
// not be modified.
//
// A domain keeps its number while it has a node. When it loses its last node, another domain may
// get the number: a sum per domain that follows the change log is 0 by then.
func (t *Topology) Domains() []int32 { return t.of }

// Bound returns a number that is greater than every domain number in use.
func (t *Topology) Bound() int { return len(t.domains) }

// Value returns the label value of a domain.
func (t *Topology) Value(domain int32) string { return t.domains[domain].value }

// Domain returns the domain of a label value, or false if no node has it.
func (t *Topology) Domain(value string) (domain int32, ok bool) {
	domain, ok = t.ids[value]
	return domain, ok
}

// Large reports whether a domain has many nodes. If not, AppendMembers costs little.
func (t *Topology) Large(domain int32) bool { return t.domains[domain].large }

// Resized returns a number that changes when Large does for a domain with nodes.
func (t *Topology) Resized() uint64 { return t.resized }

// bytes estimates the memory of the topology.
func (t *Topology) bytes() int {
	const perKey, perSlot, perDomain = 512, 4, 128
	bytes := perKey + perSlot*cap(t.of) + perDomain*len(t.domains)
	if t.members != nil {
		bytes += 2*perSlot*cap(t.members.next) + perSlot*cap(t.members.first)
	}
	return bytes
}

// AppendMembers appends the slots of the nodes in a domain, in no order.
func (t *Topology) AppendMembers(to []Slot, domain int32) []Slot {
	t.lazy.Lock()
	defer t.lazy.Unlock()
	if t.members == nil {
		t.members = newMembers(t.of, len(t.domains))
	}
	return t.members.append(to, domain)
}

// grow makes room for a slot.
func (t *Topology) grow(slots int) {
	for len(t.of) < slots {
		t.of = append(t.of, -1)
	}
	if t.members != nil {
		t.members.grow(len(t.of), 0)
	}
}

// put sets the domain of a slot by its node's label.
func (t *Topology) put(slot Slot, node *corev1.Node) {
	value, has := node.Labels[t.key]
	was := t.of[slot]
	if was < 0 && !has || was >= 0 && has && t.domains[was].value == value {
		return
	}
	t.leave(slot)
	if has {
		t.enter(slot, value)
	}
}

func (t *Topology) enter(slot Slot, value string) {
	id, ok := t.ids[value]
	if !ok {
		id = t.number(value)
	}
	t.of[slot] = id
	d := &t.domains[id]
	d.nodes++
	if !d.large && d.nodes > maxSmall {
		d.large = true
		t.resized++
	}
	if t.members != nil {
		t.members.grow(len(t.of), len(t.domains))
		t.members.add(slot, id)
	}
}

// leave removes a slot from its domain, if it is in one.
func (t *Topology) leave(slot Slot) {
	id := t.of[slot]
	if id < 0 {
		return
	}
	t.of[slot] = -1
	d := &t.domains[id]
	d.nodes--
	if d.large && d.nodes <= minLarge {
		d.large = false
		t.resized++
	}
	if t.members != nil {
		t.members.remove(slot, id)
	}
	if d.nodes == 0 {
		delete(t.ids, d.value)
		d.value = ""
		t.free = append(t.free, id)
	}
}

// number creates a domain.
func (t *Topology) number(value string) int32 {
	var id int32
	if last := len(t.free) - 1; last >= 0 {
		id, t.free = t.free[last], t.free[:last]
		t.domains[id].value = value
	} else {
		id = int32(len(t.domains))
		t.domains = append(t.domains, domain{value: value})
	}
	t.ids[value] = id
	return id
}

// Topo returns the topology of a key. The first call for a key costs all slots, and so does a call
// after the topology was dropped because too many others were used since; later refreshes cost the
// nodes that change. A topology that is used in each refresh is not dropped. All keys that no node
// has share one topology, until a node gets the key. It may be called on any goroutine that may
// read the snapshot.
func (s *Snapshot) Topo(key string) *Topology {
	s.lazy.Lock()
	defer s.lazy.Unlock()
	t, ok := s.topologies[key]
	switch {
	case ok:
	case s.hasLabel(key):
		t = s.newTopology(key)
	default:
		if s.nowhere == nil {
			s.nowhere = &Topology{}
			s.nowhere.grow(len(s.infos))
		}
		return s.nowhere
	}
	t.asked = s.refreshes
	return t
}

func (s *Snapshot) newTopology(key string) *Topology {
	t := &Topology{key: key, ids: make(map[string]int32)}
	t.grow(len(s.infos))
	for slot, info := range s.infos {
		if info != nil {
			t.put(Slot(slot), info.Node())
		}
	}
	s.dropTopologies(max(s.topologyBytes, topologyColumns*4*len(s.infos)) - t.bytes())
	s.topologies[key] = t
	return t
}

// dropTopologies drops the topologies that were not used for the longest time while all take more
// than a number of bytes. It keeps those that were used since the last refresh.
func (s *Snapshot) dropTopologies(most int) {
	for {
		var oldest *Topology
		bytes := 0
		for _, t := range s.topologies {
			bytes += t.bytes()
			if t.asked != s.refreshes && (oldest == nil || t.asked < oldest.asked) {
				oldest = t
			}
		}
		if bytes <= most || oldest == nil {
			return
		}
		delete(s.topologies, oldest.key)
	}
}

// HasLabel reports whether a node has a label with this key, whatever its value. Once it was true,
// it may stay true. A key that no node has is no topology: nothing can be in a domain of it. It may
// be called on any goroutine that may read the snapshot.
func (s *Snapshot) HasLabel(key string) bool {
	s.lazy.Lock()
	defer s.lazy.Unlock()
	return s.hasLabel(key)
}

func (s *Snapshot) hasLabel(key string) bool {
	if s.labelKeys == nil {
		s.labelKeys = sets.New[string]()
		for _, info := range s.infos {
			if info != nil {
				s.addLabelKeys(info.Node())
			}
		}
	}
	return s.labelKeys.Has(key)
}

// LabelsEpoch returns a number that changes when HasLabel becomes true for a key. It does so in
// refreshes only.
func (s *Snapshot) LabelsEpoch() uint64 { return s.labelsEpoch }

// addLabelKeys adds the keys of a node's labels, and reports whether there were new ones.
func (s *Snapshot) addLabelKeys(node *corev1.Node) bool {
	before := s.labelKeys.Len()
	for key := range node.Labels {
		s.labelKeys.Insert(key)
	}
	return s.labelKeys.Len() > before
}

// relabel updates the topologies with a node, new or changed.
func (s *Snapshot) relabel(slot Slot, node *corev1.Node) {
	if s.labelKeys != nil && s.addLabelKeys(node) {
		s.labelsEpoch++
	}
	if s.nowhere != nil {
		s.nowhere.grow(len(s.infos))
	}
	for _, t := range s.topologies {
		t.grow(len(s.infos))
		t.put(slot, node)
	}
}

// unlabel removes a node from the topologies.
func (s *Snapshot) unlabel(slot Slot) {
	for _, t := range s.topologies {
		t.leave(slot)
	}
}

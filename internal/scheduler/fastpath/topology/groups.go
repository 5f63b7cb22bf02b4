// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"encoding/binary"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/changelog"
)

// Nodes are grouped by domain in one of two ways. Of a domain with many nodes, such as a zone, the
// key of a node's group holds the place: the totals of the domain are the same for all its nodes.
// Of a domain with few nodes, such as a hostname or a rack, the key holds the totals themselves,
// because places would make about as many groups as there are nodes. When such totals change, so do
// the keys of all nodes in the domain, which Moved returns.
//
// A soft constraint on any key but the hostname always uses places: its weight depends on the
// number of domains.

// moved logs the slots whose keys changed because of another node in their domain.
type moved struct {
	// on is true once the tracker has been built.
	on    bool
	slots changelog.Log[cache.Slot]
	// members is scratch memory for add.
	members []cache.Slot
}

// minMoved is the number of entries that the log keeps at least.
const minMoved = 1024

// add adds the nodes in a place whose totals have changed. It does nothing if their keys hold the
// place.
func (m *moved) add(p *places, place int32) {
	if !m.on || !p.small(place) {
		return
	}
	m.members = p.topo.AppendMembers(m.members[:0], place-firstPlace)
	for _, slot := range m.members {
		m.slots.Add(slot, max(minMoved, len(p.at)/4))
	}
}

// Moved implements Tracker.
func (m *moved) Moved(pos uint64) (slots []cache.Slot, end uint64, ok bool) {
	slots, ok = m.slots.Since(pos)
	return slots, m.slots.End(), ok
}

// GroupsEpoch implements Tracker.
func (s *spread) GroupsEpoch() (epoch uint64) {
	for i := range s.hard {
		epoch += s.hard[i].topo.Resized()
	}
	return epoch
}

// AppendGroup implements Tracker. The places also determine whether a node lacks a key that it
// needs to be scored.
func (s *spread) AppendGroup(key []byte, slot cache.Slot) []byte {
	for i := range s.hard {
		y := &s.hard[i]
		if place := y.at[slot]; y.small(place) {
			key = binary.AppendUvarint(key, 1+2*uint64(y.pods[place]))
		} else {
			key = binary.AppendUvarint(key, 2*uint64(place))
		}
	}
	for i := range s.soft {
		y := &s.soft[i]
		place := y.at[slot]
		switch {
		case !y.perNode:
			key = binary.AppendUvarint(key, uint64(place))
		case place == unlabelled:
			key = append(key, 0)
		default:
			key = binary.AppendUvarint(key, 1+uint64(s.counters[y.counter].pods[slot]))
		}
	}
	return key
}

// GroupsEpoch implements Tracker. A term of a pod may add an axis.
func (a *affinity) GroupsEpoch() uint64 {
	epoch := uint64(len(a.axes))
	for _, x := range a.axes {
		epoch += x.topo.Resized()
	}
	return epoch
}

// AppendGroup implements Tracker.
func (a *affinity) AppendGroup(key []byte, slot cache.Slot) []byte {
	for _, x := range a.axes {
		place := x.at[slot]
		if !x.small(place) {
			key = binary.AppendUvarint(key, 2*uint64(place))
			continue
		}
		totals := x.in(place)
		answers := byte(1)
		for i, found := range [...]bool{totals.affine > 0, totals.hostile > 0, totals.guarded > 0} {
			if found {
				answers |= 2 << i
			}
		}
		key = binary.AppendVarint(append(key, answers), totals.wanted)
	}
	return key
}

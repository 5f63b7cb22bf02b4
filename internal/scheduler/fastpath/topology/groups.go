// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"encoding/binary"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// Nodes are grouped in one of two ways. Where domains have many nodes, as zones do, the key holds
// the place of a node: the totals of a domain are then the same for all its nodes. Where each node
// is a domain of its own, as with hostnames, places would make as many groups as there are nodes,
// so the key holds the totals themselves.

// GroupsEpoch implements Tracker.
func (s *spread) GroupsEpoch() uint64 {
	for i := range s.hard {
		if s.hard[i].regroup() {
			s.regrouped++
		}
	}
	return s.regrouped
}

// AppendGroup implements Tracker. The places also determine whether a node lacks a key that it
// needs to be scored.
func (s *spread) AppendGroup(key []byte, slot cache.Slot) []byte {
	for i := range s.hard {
		y := &s.hard[i]
		place := y.at[slot]
		switch {
		case !y.single:
			key = binary.AppendUvarint(key, uint64(place))
		case place == unlabelled:
			key = append(key, 0)
		default:
			key = binary.AppendUvarint(key, 1+uint64(y.pods[place]))
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
	for _, x := range a.axes {
		if x.regroup() {
			a.regrouped++
		}
	}
	return a.regrouped + uint64(len(a.axes))
}

// AppendGroup implements Tracker.
func (a *affinity) AppendGroup(key []byte, slot cache.Slot) []byte {
	for _, x := range a.axes {
		place := x.at[slot]
		if !x.single {
			key = binary.AppendUvarint(key, uint64(place))
			continue
		}
		if place == unlabelled {
			key = append(key, 0)
			continue
		}
		answers := byte(1)
		for i, found := range [...]bool{x.affine.in(place) > 0, x.hostile.in(place) > 0, x.guarded.in(place) > 0} {
			if found {
				answers |= 2 << i
			}
		}
		key = binary.AppendVarint(append(key, answers), x.wanted.in(place))
	}
	return key
}

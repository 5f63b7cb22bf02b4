// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import "github.com/livesched/livesched/internal/scheduler/cache"

// sum is what nodes add, and what it comes to in each domain. It has no arrays until a node adds
// something.
type sum[T int32 | int64] struct {
	nodes   []T // by slot
	domains []T // by place
}

// at is what a node adds.
func (s *sum[T]) at(slot cache.Slot) T {
	if int(slot) < len(s.nodes) {
		return s.nodes[slot]
	}
	return 0
}

// in is what a domain comes to.
func (s *sum[T]) in(place int32) T {
	if int(place) < len(s.domains) {
		return s.domains[place]
	}
	return 0
}

// move has a node add something in one place, instead of what it added in another.
func (s *sum[T]) move(slot cache.Slot, from, to int32, value T, slots, places int) {
	before := s.at(slot)
	if to == unlabelled {
		value = 0
	}
	if before == 0 && value == 0 {
		return
	}
	s.nodes = grow(s.nodes, slots)
	s.domains = grow(s.domains, places)
	s.nodes[slot] = value
	s.domains[from] -= before
	s.domains[to] += value
}

// with keeps the slots in domains where there is something. There is nothing outside of all
// domains.
func (s *sum[T]) with(slots []cache.Slot, at []int32) []cache.Slot {
	kept := 0
	for _, slot := range slots {
		if place := int(at[slot]); place < len(s.domains) && s.domains[place] > 0 {
			slots[kept] = slot
			kept++
		}
	}
	return slots[:kept]
}

// without keeps the others.
func (s *sum[T]) without(slots []cache.Slot, at []int32) []cache.Slot {
	if s.empty() {
		return slots
	}
	kept := 0
	for _, slot := range slots {
		if place := int(at[slot]); place >= len(s.domains) || s.domains[place] <= 0 {
			slots[kept] = slot
			kept++
		}
	}
	return slots[:kept]
}

// labelled keeps the slots of nodes that have the label.
func labelled(slots []cache.Slot, at []int32) []cache.Slot {
	kept := 0
	for _, slot := range slots {
		if at[slot] != unlabelled {
			slots[kept] = slot
			kept++
		}
	}
	return slots[:kept]
}

// addTo adds what their domains come to, to the scores of nodes.
func (s *sum[T]) addTo(scores []T, feasible []cache.Slot, at []int32) {
	for i, slot := range feasible {
		if place := int(at[slot]); place < len(s.domains) {
			scores[i] += s.domains[place]
		}
	}
}

func (s *sum[T]) empty() bool { return len(s.nodes) == 0 }

func (s *sum[T]) bytes(element int) int { return element * (cap(s.nodes) + cap(s.domains)) }

// look notes where all nodes are.
func (x *axis) look(slots int) {
	x.at = grow(x.at, slots)
	for slot := range x.at {
		x.at[slot] = x.now(cache.Slot(slot))
	}
}

// move adds what a node was found to add, where it is now, instead of what it added.
func (x *axis) move(slot cache.Slot, slots int) {
	x.at = grow(x.at, slots)
	from, to, bound := x.at[slot], x.now(slot), x.bound()
	x.at[slot] = to
	x.affine.move(slot, from, to, x.found.affine, slots, bound)
	x.hostile.move(slot, from, to, x.found.hostile, slots, bound)
	x.guarded.move(slot, from, to, x.found.guarded, slots, bound)
	x.wanted.move(slot, from, to, x.found.wanted, slots, bound)
	x.found = amounts{}
}

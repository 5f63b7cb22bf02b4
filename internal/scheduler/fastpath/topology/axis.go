// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import "github.com/livesched/livesched/internal/scheduler/cache"

// sum holds the contribution of each node and the total of each domain. It has no arrays until a
// node contributes something.
type sum[T int32 | int64] struct {
	nodes   []T // by slot
	domains []T // by place
	// contributing is the number of nodes whose contribution is not zero.
	contributing int
}

// at returns the contribution of a node.
func (s *sum[T]) at(slot cache.Slot) T {
	if int(slot) < len(s.nodes) {
		return s.nodes[slot]
	}
	return 0
}

// in returns the total of a domain.
func (s *sum[T]) in(place int32) T {
	if int(place) < len(s.domains) {
		return s.domains[place]
	}
	return 0
}

// move replaces the contribution of a node in one place by a new one, perhaps in another place.
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
	if before != 0 {
		s.contributing--
	}
	if value != 0 {
		s.contributing++
	}
	s.nodes[slot] = value
	s.domains[from] -= before
	s.domains[to] += value
}

// with keeps the slots in domains with a positive total. Slots outside of all domains have none.
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

// without keeps the slots in domains without a positive total.
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

// addTo adds the totals of the nodes' domains to their scores.
func (s *sum[T]) addTo(scores []T, feasible []cache.Slot, at []int32) {
	for i, slot := range feasible {
		if place := int(at[slot]); place < len(s.domains) {
			scores[i] += s.domains[place]
		}
	}
}

func (s *sum[T]) empty() bool { return len(s.nodes) == 0 }

func (s *sum[T]) bytes(element int) int { return element * (cap(s.nodes) + cap(s.domains)) }

// look records the places of all nodes.
func (a *axis) look(slots int) {
	a.at = grow(a.at, slots)
	for slot := range a.at {
		a.at[slot] = a.now(cache.Slot(slot))
	}
}

// in returns the totals of a place.
func (a *axis) in(place int32) amounts {
	return amounts{a.affine.in(place), a.hostile.in(place), a.guarded.in(place), a.wanted.in(place)}
}

// move replaces the contribution of a node by found, in the node's current place.
func (a *axis) move(slot cache.Slot, slots int, moved *moved) {
	a.at = grow(a.at, slots)
	from, to, bound := a.at[slot], a.now(slot), a.bound()
	before := [...]amounts{a.in(from), a.in(to)}
	a.at[slot] = to
	a.affine.move(slot, from, to, a.found.affine, slots, bound)
	a.hostile.move(slot, from, to, a.found.hostile, slots, bound)
	a.guarded.move(slot, from, to, a.found.guarded, slots, bound)
	a.wanted.move(slot, from, to, a.found.wanted, slots, bound)
	a.found = amounts{}
	if a.in(from) != before[0] {
		moved.add(&a.places, from)
	}
	if from != to && a.in(to) != before[1] {
		moved.add(&a.places, to)
	}
}

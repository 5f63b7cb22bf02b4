// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import "github.com/livesched/livesched/internal/scheduler/cache"

// slotSet is a set of slots that can be emptied without visiting its members.
type slotSet struct {
	rounds []uint32 // by slot: the round in which it was added
	round  uint32
}

// reset empties the set and makes room for slots.
func (s *slotSet) reset(slots int) {
	s.round++
	if s.round == 0 {
		clear(s.rounds)
		s.round = 1
	}
	for len(s.rounds) < slots {
		s.rounds = append(s.rounds, 0)
	}
}

// add adds a slot and reports whether it was not in the set.
func (s *slotSet) add(slot cache.Slot) bool {
	if s.rounds[slot] == s.round {
		return false
	}
	s.rounds[slot] = s.round
	return true
}

func (s *slotSet) remove(slot cache.Slot) {
	if s.has(slot) {
		s.rounds[slot] = s.round - 1
	}
}

func (s *slotSet) has(slot cache.Slot) bool { return s.rounds[slot] == s.round }

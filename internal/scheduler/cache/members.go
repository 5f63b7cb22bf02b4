// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

// members lists the slots of each domain of a topology, as rings.
type members struct {
	// first is a slot of each domain, noSlot if it has none.
	first []Slot
	// next and previous are the neighbours of each slot in the ring of its domain.
	next, previous []Slot
}

func newMembers(of []int32, domains int) *members {
	m := &members{}
	m.grow(len(of), domains)
	for slot, domain := range of {
		if domain >= 0 {
			m.add(Slot(slot), domain)
		}
	}
	return m
}

// grow makes room for slots and domains.
func (m *members) grow(slots, domains int) {
	for len(m.next) < slots {
		m.next, m.previous = append(m.next, noSlot), append(m.previous, noSlot)
	}
	for len(m.first) < domains {
		m.first = append(m.first, noSlot)
	}
}

// add adds a slot to a domain.
func (m *members) add(slot Slot, domain int32) {
	first := m.first[domain]
	if first == noSlot {
		m.first[domain], m.next[slot], m.previous[slot] = slot, slot, slot
		return
	}
	last := m.previous[first]
	m.next[last], m.previous[slot] = slot, last
	m.next[slot], m.previous[first] = first, slot
}

// remove removes a slot from its domain.
func (m *members) remove(slot Slot, domain int32) {
	next, previous := m.next[slot], m.previous[slot]
	m.next[previous], m.previous[next] = next, previous
	switch {
	case next == slot:
		m.first[domain] = noSlot
	case m.first[domain] == slot:
		m.first[domain] = next
	}
}

// append appends the slots of a domain.
func (m *members) append(to []Slot, domain int32) []Slot {
	first := m.first[domain]
	if first == noSlot {
		return to
	}
	to = append(to, first)
	for slot := m.next[first]; slot != first; slot = m.next[slot] {
		to = append(to, slot)
	}
	return to
}

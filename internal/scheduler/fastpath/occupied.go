// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/changelog"
)

// occupation holds the slots of rows that are occupied: their nodes have no room beside nominated
// pods. These may be different for two priorities, so each decision sets them. Rows and groups that
// have been up to date remain so: only slots that become occupied, or free, are touched.
type occupation struct {
	slots map[cache.Slot]struct{}
	// version is that of the exceptions that were last set, or stale.
	version uint64
	// flips lists the slots that have become occupied or free, for groups.
	flips changelog.Log[cache.Slot]
}

// stale is the version of an occupation in which the rows have freed slots.
const stale = ^uint64(0)

// maxFlips is the number of flips that groups may be behind.
const maxFlips = 1024

func (o *occupation) flip(slot cache.Slot) { o.flips.Add(slot, maxFlips) }

// forget frees all slots, because the rows are computed anew.
func (o *occupation) forget() {
	for slot := range o.slots {
		o.flip(slot)
	}
	clear(o.slots)
	o.version = stale
}

// accepts reports whether the local filters accept the node in a slot without nominated pods.
func (l *localRows) accepts(slot cache.Slot) bool {
	return l.verdict[slot] == fits || l.verdict[slot] == occupied
}

// occupy makes the slots of exceptions occupied, and all others free.
func (l *localRows) occupy(by *exceptions) {
	o := &l.occupation
	if o.version == by.version {
		return
	}
	for slot := range o.slots {
		if by.has(slot) {
			continue
		}
		delete(o.slots, slot)
		l.verdict[slot] = fits
		l.feasible++
		l.byFixed.add(slot, l.kindOf(slot), l.fixed[slot])
		o.flip(slot)
	}
	for slot := range by.slots {
		if l.verdict[slot] != fits {
			continue
		}
		if o.slots == nil {
			o.slots = map[cache.Slot]struct{}{}
		}
		o.slots[slot] = struct{}{}
		l.verdict[slot] = occupied
		l.feasible--
		l.byFixed.remove(slot, l.fixed[slot])
		o.flip(slot)
	}
	o.version = by.version
}

// release frees a slot whose row is about to be computed anew.
func (o *occupation) release(slot cache.Slot) {
	if _, ok := o.slots[slot]; ok {
		delete(o.slots, slot)
		o.version = stale
	}
}

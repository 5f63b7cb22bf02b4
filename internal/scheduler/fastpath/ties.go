// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"iter"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// Ties are nodes with one total, in no order. There may be thousands, which are where they were
// found: in parts.
type Ties struct {
	parts [][]cache.Slot
	size  int
}

// Len is the number of nodes.
func (t *Ties) Len() int { return t.size }

// At returns the slot of the i-th node, of those from 0 to Len-1.
func (t *Ties) At(i int) cache.Slot {
	for _, part := range t.parts {
		if i < len(part) {
			return part[i]
		}
		i -= len(part)
	}
	panic("index out of range")
}

// All yields the slots of all nodes.
func (t *Ties) All() iter.Seq[cache.Slot] {
	return func(yield func(cache.Slot) bool) {
		for _, part := range t.parts {
			for _, slot := range part {
				if !yield(slot) {
					return
				}
			}
		}
	}
}

// reset makes it nodes of one part, or none.
func (t *Ties) reset(slots []cache.Slot) {
	t.parts, t.size = t.parts[:0], 0
	t.add(slots)
}

// add adds a part. It must stay as it is.
func (t *Ties) add(slots []cache.Slot) {
	if len(slots) > 0 {
		t.parts = append(t.parts, slots)
		t.size += len(slots)
	}
}

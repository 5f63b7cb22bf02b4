// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"iter"
	"slices"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// ties are nodes with the same total, in no order. There may be thousands of them, so they are not
// copied: the set refers to the parts in which they were found.
type ties struct {
	parts [][]cache.Slot
	size  int
}

// len returns the number of nodes.
func (t *ties) len() int { return t.size }

// at returns the slot of the i-th node, for i from 0 to len-1.
func (t *ties) at(i int) cache.Slot {
	for _, part := range t.parts {
		if i < len(part) {
			return part[i]
		}
		i -= len(part)
	}
	panic("index out of range")
}

// has reports whether a node is among them.
func (t *ties) has(slot cache.Slot) bool {
	return slices.ContainsFunc(t.parts, func(part []cache.Slot) bool { return slices.Contains(part, slot) })
}

// all yields the slots of all nodes.
func (t *ties) all() iter.Seq[cache.Slot] {
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

// add adds a part. The part must not change afterwards.
func (t *ties) add(slots []cache.Slot) {
	if len(slots) > 0 {
		t.parts = append(t.parts, slots)
		t.size += len(slots)
	}
}

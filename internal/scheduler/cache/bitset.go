// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"iter"
	"math/bits"
)

// Bitset is a set of slots. One that a Snapshot returns must not be used after the next refresh.
type Bitset struct {
	words []uint64
	n     int
}

// Has reports whether a slot is in the set.
func (b Bitset) Has(slot Slot) bool {
	word := int(slot) >> 6
	return word < len(b.words) && b.words[word]&(1<<(uint(slot)&63)) != 0
}

// Len returns the number of slots in the set.
func (b Bitset) Len() int { return b.n }

// All yields the slots in ascending order.
func (b Bitset) All() iter.Seq[Slot] {
	return func(yield func(Slot) bool) {
		for i, word := range b.words {
			for ; word != 0; word &= word - 1 {
				if !yield(Slot(i<<6 + bits.TrailingZeros64(word))) {
					return
				}
			}
		}
	}
}

// set adds or removes a slot, and reports whether the set changed.
func (b *Bitset) set(slot Slot, in bool) bool {
	if b.Has(slot) == in {
		return false
	}
	word, bit := int(slot)>>6, uint64(1)<<(uint(slot)&63)
	for word >= len(b.words) {
		b.words = append(b.words, 0)
	}
	b.words[word] ^= bit
	if in {
		b.n++
	} else {
		b.n--
	}
	return true
}

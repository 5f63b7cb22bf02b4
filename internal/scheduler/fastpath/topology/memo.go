// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import "github.com/livesched/livesched/internal/scheduler/cache"

// memo remembers what the pods of each signature mean to a tracker. Most mean nothing, which takes
// two bits.
type memo[T any] struct {
	epoch uint64 // of the signatures
	// known are the signatures that were looked at, meaning those of them that mean something. Bits
	// by number.
	known, meaning []uint64
	effects        map[cache.SignatureID]T
}

// look prepares for being asked about signatures. What was remembered goes if they have other
// numbers by now.
func (m *memo[T]) look(signatures *cache.Signatures) {
	if m.epoch != signatures.Epoch() {
		*m = memo[T]{epoch: signatures.Epoch(), effects: map[cache.SignatureID]T{}}
	}
	words := (int(signatures.Bound()) + 63) / 64
	m.known, m.meaning = grow(m.known, words), grow(m.meaning, words)
}

// has reports whether a signature was looked at, and whether it means something.
func (m *memo[T]) has(id cache.SignatureID) (known, meaning bool) {
	word, bit := id>>6, uint64(1)<<(id&63)
	return m.known[word]&bit != 0, m.meaning[word]&bit != 0
}

// means reports whether a signature is known to mean something.
func (m *memo[T]) means(id cache.SignatureID) bool { return m.meaning[id>>6]&(1<<(id&63)) != 0 }

// rememberNothing notes that a signature means nothing.
func (m *memo[T]) rememberNothing(id cache.SignatureID) { m.known[id>>6] |= 1 << (id & 63) }

// remember notes what a signature means.
func (m *memo[T]) remember(id cache.SignatureID, effect T) {
	m.rememberNothing(id)
	m.meaning[id>>6] |= 1 << (id & 63)
	m.effects[id] = effect
}

// bytes is about what it holds in memory, with so much for each effect.
func (m *memo[T]) bytes(each int) int { return 8*(cap(m.known)+cap(m.meaning)) + each*len(m.effects) }

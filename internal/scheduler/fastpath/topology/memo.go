// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import "github.com/livesched/livesched/internal/scheduler/cache"

// memo remembers the effect of each signature's pods on a tracker. Most have none, which takes two
// bits.
type memo[T any] struct {
	epoch uint64 // of the signatures
	// known has the signatures that were evaluated, meaning those among them that have an effect,
	// as bits by number.
	known, meaning []uint64
	effects        map[cache.SignatureID]T
}

// look prepares for lookups of signatures. It drops all content if the signatures have been
// renumbered.
func (m *memo[T]) look(signatures *cache.Signatures) {
	if m.epoch != signatures.Epoch() {
		*m = memo[T]{epoch: signatures.Epoch(), effects: map[cache.SignatureID]T{}}
	}
	words := (int(signatures.Bound()) + 63) / 64
	m.known, m.meaning = grow(m.known, words), grow(m.meaning, words)
}

// has reports whether a signature was evaluated, and whether it has an effect.
func (m *memo[T]) has(id cache.SignatureID) (known, meaning bool) {
	word, bit := id>>6, uint64(1)<<(id&63)
	return m.known[word]&bit != 0, m.meaning[word]&bit != 0
}

// means reports whether a signature is known to have an effect.
func (m *memo[T]) means(id cache.SignatureID) bool { return m.meaning[id>>6]&(1<<(id&63)) != 0 }

// rememberNothing records that a signature has no effect.
func (m *memo[T]) rememberNothing(id cache.SignatureID) { m.known[id>>6] |= 1 << (id & 63) }

// remember records the effect of a signature.
func (m *memo[T]) remember(id cache.SignatureID, effect T) {
	m.rememberNothing(id)
	m.meaning[id>>6] |= 1 << (id & 63)
	m.effects[id] = effect
}

// bytes estimates the memory of the memo, with each bytes for an effect.
func (m *memo[T]) bytes(each int) int { return 8*(cap(m.known)+cap(m.meaning)) + each*len(m.effects) }

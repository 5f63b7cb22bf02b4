// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import "github.com/livesched/livesched/internal/scheduler/cache"

// relevance remembers which classes are relevant to something. It is read for every change, so it
// is a table indexed by the remainder of the class number. If two classes share an entry, it
// remembers the later one.
type relevance struct {
	// classes has a length of a power of two. An entry is 0, or twice the number of a class, plus
	// one if the class is relevant.
	classes []uint64
}

// maxRelevant bounds the number of classes that are remembered.
const maxRelevant = 4096

func (r *relevance) of(id cache.ClassID) (relevant, known bool) {
	if len(r.classes) == 0 {
		return false, false
	}
	entry := r.classes[uint64(id)&uint64(len(r.classes)-1)]
	return entry&1 != 0, entry>>1 == uint64(id)
}

// remember records whether a class is relevant. It makes room for at least room classes, up to
// maxRelevant.
func (r *relevance) remember(id cache.ClassID, relevant bool, room int) {
	if len(r.classes) < min(room, maxRelevant) {
		size := 64
		for size < min(room, maxRelevant) {
			size *= 2
		}
		r.classes = make([]uint64, size)
	}
	entry := uint64(id) << 1
	if relevant {
		entry |= 1
	}
	r.classes[uint64(id)&uint64(len(r.classes)-1)] = entry
}

func (r *relevance) size() int { return 8 * len(r.classes) }

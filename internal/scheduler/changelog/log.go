// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package changelog keeps the latest changes of something, for readers that follow it.
//
//	writer ──Add──▶ Log ◀──Since(position)── reader, with its position
//	                     ──entries──▶ looks again at what these name
//	                     ──false────▶ looks at everything again
package changelog

import "slices"

// Log lists the latest changes, oldest first. Each reader keeps its own position: it reads the
// entries after it, and End is its next position. An entry says what has changed, and not how it is
// now, which the reader must look up.
//
// Log has no lock. If several goroutines use it, the owner of the Log guards it, together with what
// it is about: a reader must not see End without the changes before it. The zero value is an empty
// Log.
type Log[T any] struct {
	// gone is the number of positions before that of entries[0].
	gone    uint64
	entries []T
}

// End returns the position after the last entry. It is never 0, which is the position of a reader
// that has never read.
func (l *Log[T]) End() uint64 { return l.gone + 1 + uint64(len(l.entries)) }

// Since returns the entries from a position on, and true. False means that the log does not have
// all of them any more, or never had this position: the reader must look at everything again, and
// go on from End.
//
// The entries must not be modified. They are valid until the next call of Add or Cut.
func (l *Log[T]) Since(pos uint64) ([]T, bool) {
	if pos <= l.gone || pos > l.End() {
		return nil, false
	}
	return l.entries[pos-l.gone-1:], true
}

// Cap returns the number of entries for which the log has memory.
func (l *Log[T]) Cap() int { return cap(l.entries) }

// Add appends an entry. The log keeps at least the latest keep entries, which must be one or more:
// when it has twice as many, it drops the older half.
func (l *Log[T]) Add(entry T, keep int) {
	if drop := l.surplus(keep); drop > 0 {
		l.entries = l.entries[:copy(l.entries, l.entries[drop:])]
	}
	l.entries = append(l.entries, entry)
}

// AddShared is Add for a log that is guarded by a lock which readers do not hold while they use the
// entries: what Since has returned remains valid.
func (l *Log[T]) AddShared(entry T, keep int) {
	if drop := l.surplus(keep); drop > 0 {
		l.entries = slices.Clone(l.entries[drop:])
	}
	l.entries = append(l.entries, entry)
}

// surplus returns the number of entries to drop before another one is added, and counts them as
// gone.
func (l *Log[T]) surplus(keep int) int {
	if len(l.entries) < 2*keep {
		return 0
	}
	drop := len(l.entries) - keep
	l.gone += uint64(drop)
	return drop
}

// Cut makes a gap: Since returns false for all positions up to now.
func (l *Log[T]) Cut() {
	l.gone = l.End()
	l.entries = l.entries[:0]
}

// CutShared is Cut for a log like that of AddShared.
func (l *Log[T]) CutShared() {
	l.gone = l.End()
	l.entries = nil
}

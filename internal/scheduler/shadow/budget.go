// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import "time"

const (
	// share is the inverse of the share of the time that shadows may take on average: a tenth.
	share = 10
	// burst is the time that they may take at once after a rest.
	burst = 100 * time.Millisecond
)

// budget limits the time that shadows take from the scheduling loop. Decisions on the fast path are
// far below it. The zero value has rested.
type budget struct {
	left time.Duration
	// at is when left was brought up to date.
	at time.Time
}

// has reports whether there is time left.
func (b *budget) has(now time.Time) bool {
	if rest := now.Sub(b.at); b.at.IsZero() || rest < 0 { // or the clock was set back
		b.left = burst
	} else {
		b.left = min(burst, b.left+rest/share)
	}
	b.at = now
	return b.left > 0
}

// spend takes time away, which may be more than is left.
func (b *budget) spend(d time.Duration) { b.left -= d }

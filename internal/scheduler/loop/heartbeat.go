// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"sync/atomic"
	"time"
)

// Heartbeat holds the time at which the current scheduling cycle began, with its monotonic clock
// reading: a step of the wall clock must not make a cycle look stuck. The loop writes it, health
// checks read it. The zero value is ready for use.
type Heartbeat struct{ since atomic.Pointer[time.Time] }

// Begin records that a cycle begins.
func (h *Heartbeat) Begin(now time.Time) { h.since.Store(&now) }

// End records that the cycle has ended.
func (h *Heartbeat) End() { h.since.Store(nil) }

// BusySince returns when the current cycle began. It is zero while the loop waits for a pod.
func (h *Heartbeat) BusySince() time.Time {
	if since := h.since.Load(); since != nil {
		return *since
	}
	return time.Time{}
}

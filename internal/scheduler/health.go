// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// stuckAfter is how long one scheduling cycle, or one call of a plugin under the queue's lock, may
// take before the process counts as stuck. It is far beyond what extenders are given, unless a
// policy gives them more.
const stuckAfter = 2 * time.Minute

// Healthy returns an error when a scheduling cycle has been going on for so long that it must be
// stuck, or when the scheduling queue has not been free for so long: a plugin hangs in PreEnqueue,
// in a queueing hint or in the queue sort. It returns at once. To notice a stuck queue it must be
// called again and again, as a liveness probe does.
func (s *Scheduler) Healthy() error {
	if since := s.heartbeat.busySince(); !since.IsZero() && s.clock.Since(since) > stuckAfter {
		return fmt.Errorf("the scheduling cycle that began at %v has not ended", since.Format(time.RFC3339))
	}
	select {
	case <-s.ready:
	default:
		return nil // there is no queue yet
	}
	since := s.probe.waitingSince(s.clock.Now(), func() { s.queue.Has("") })
	if !since.IsZero() && s.clock.Since(since) > stuckAfter {
		return fmt.Errorf("the scheduling queue has been locked since %v", since.Format(time.RFC3339))
	}
	return nil
}

// heartbeat notes when the current cycle began. Written by the loop, read by the health check.
type heartbeat struct{ since atomic.Int64 }

func (h *heartbeat) begin(now time.Time) { h.since.Store(now.UnixNano()) }
func (h *heartbeat) end()                { h.since.Store(0) }

// busySince is when the current cycle began, zero while the loop waits for a pod.
func (h *heartbeat) busySince() time.Time {
	if since := h.since.Load(); since != 0 {
		return time.Unix(0, since)
	}
	return time.Time{}
}

// probe takes a lock in a goroutine of its own, one at a time.
type probe struct {
	mu    sync.Mutex // guards since
	since time.Time
}

// waitingSince is when the attempt that still waits for the lock began. If there is none, it begins
// one and returns the zero time.
func (p *probe) waitingSince(now time.Time, lock func()) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.since.IsZero() {
		return p.since
	}
	p.since = now
	go func() {
		lock()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.since = time.Time{}
	}()
	return time.Time{}
}

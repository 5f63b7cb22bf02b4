// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"sync"
	"time"
)

// stuckAfter is how long one scheduling cycle, or one call of a plugin under the queue's lock, may
// take before the process counts as stuck. A cycle whose plugins heed their context ends before: it
// has a timeout of 100 seconds (package loop). The timeout also covers extenders.
const stuckAfter = 2 * time.Minute

// Healthy returns an error when a scheduling cycle has taken so long that it must be stuck, or when
// the scheduling queue has been locked for so long: a plugin hangs in PreEnqueue, in a queueing
// hint or in the queue sort. It returns immediately. To notice a stuck queue it must be called
// repeatedly, as a liveness probe does.
func (s *Scheduler) Healthy() error {
	if since := s.heartbeat.BusySince(); !since.IsZero() && s.cfg.Clock.Since(since) > stuckAfter {
		return fmt.Errorf("the scheduling cycle that began at %v has not ended", since.Format(time.RFC3339))
	}
	p, err := s.Parts()
	if err != nil {
		return nil // there is no queue yet
	}
	since := s.probe.waitingSince(s.cfg.Clock.Now(), func() { p.Queue.Has("") })
	if !since.IsZero() && s.cfg.Clock.Since(since) > stuckAfter {
		return fmt.Errorf("the scheduling queue has been locked since %v", since.Format(time.RFC3339))
	}
	return nil
}

// probe takes a lock in its own goroutine, one attempt at a time.
type probe struct {
	mu    sync.Mutex // guards since
	since time.Time
}

// waitingSince returns when the attempt that still waits for the lock began. If there is none, it
// begins one and returns the zero time.
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

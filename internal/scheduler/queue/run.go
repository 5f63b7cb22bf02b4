// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"slices"
	"time"

	"k8s.io/klog/v2"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// flushInterval is the interval between searches for pods that have been Unschedulable or Gated for
// too long.
const flushInterval = 30 * time.Second

// Run moves pods whose back-off is over, and pods that have waited too long, until ctx ends or the
// queue is closed. It must be called once only.
func (q *Queue) Run(ctx context.Context) {
	logger := klog.FromContext(ctx)
	// Tick at the ends of windows, whenever the process started.
	now := q.clock.Now()
	aligned := q.clock.NewTimer(q.windows.begin(now).Add(backoffWindow).Sub(now))
	defer aligned.Stop()
	select {
	case <-ctx.Done():
		return
	case <-q.done:
		return
	case <-aligned.C():
	}
	completed, leftover := q.clock.NewTicker(backoffWindow), q.clock.NewTicker(flushInterval)
	defer completed.Stop()
	defer leftover.Stop()
	q.flushBackoff(logger)
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.done:
			return
		case <-completed.C():
			q.retryDueGroups(logger)
			q.flushBackoff(logger)
		case <-leftover.C():
			q.flushUnschedulable(logger)
		}
	}
}

// flushBackoff moves the pods whose back-off is over to Active.
func (q *Queue) flushBackoff(logger klog.Logger) {
	window := q.windows.begin(q.clock.Now())
	takeTurns(func() (more bool) {
		q.mu.Lock()
		defer q.mu.Unlock()
		return inTurn(turnPods, func() bool { return q.endBackoffLocked(logger, window) })
	})
}

// endBackoffLocked ends the back-off of one pod that ends before a window. It returns false if
// there is none.
func (q *Queue) endBackoffLocked(logger klog.Logger, window time.Time) bool {
	e := q.backoff.first()
	if e == nil || !e.until.Before(window) {
		e = q.errorBackoff.first()
	}
	switch {
	case e == nil || !e.until.Before(window):
		return false
	case e.outdatedLocked():
		q.renewLocked(logger, e) // this removes it from the heap
	case e.failures == 0:
		q.moveLocked(logger, e, Active, schedframework.BackoffComplete)
	default:
		// PreEnqueue plugins admitted all other pods when their back-off began. One of them failed
		// for this pod, which caused the back-off. If it fails again, the pod moves to a later
		// window.
		q.enqueueLocked(logger, e, immediately, schedframework.BackoffComplete)
	}
	return true
}

// flushUnschedulable retries pods that have been Unschedulable or Gated for too long. It makes up
// for hints that miss an event.
func (q *Queue) flushUnschedulable(logger klog.Logger) {
	q.mu.Lock()
	waiting := slices.Clone(q.unschedulable.entries)
	q.mu.Unlock()
	takeTurns(func() (more bool) {
		q.mu.Lock()
		defer q.mu.Unlock()
		waiting = processSome(waiting, turnPods, func(e *entry) { q.flushLocked(logger, e) })
		return len(waiting) > 0
	})
}

// flushLocked retries a pod if it has been Unschedulable or Gated for too long.
func (q *Queue) flushLocked(logger klog.Logger, e *entry) {
	if !e.place.awaitsEvent() || e.outdatedLocked() {
		return
	}
	now := q.clock.Now()
	if now.Sub(e.waitsSince()) <= e.profile.maxInUnschedulable {
		return
	}
	q.enqueueLocked(logger, e, afterBackoff, schedframework.UnschedulableTimeout)
	if e.place.awaitsEvent() {
		e.checked = now
	} else {
		e.info.WasFlushedFromUnschedulable = true
	}
}

// waitsSince returns when a pod that waits for an event was last tried, or flushed without leaving.
func (e *entry) waitsSince() time.Time {
	if e.checked.After(e.info.Timestamp) {
		return e.checked
	}
	return e.info.Timestamp
}

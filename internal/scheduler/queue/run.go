// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
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
	q.withLock(func() { q.flushBackoffLocked(logger) })
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.done:
			return
		case <-completed.C():
			q.withLock(func() { q.flushBackoffLocked(logger) })
		case <-leftover.C():
			q.withLock(func() { q.flushUnschedulableLocked(logger) })
		}
	}
}

func (q *Queue) withLock(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f()
}

// flushBackoffLocked moves the pods whose back-off is over to Active.
func (q *Queue) flushBackoffLocked(logger klog.Logger) {
	window := q.windows.begin(q.clock.Now())
	for {
		e := q.backoff.first()
		if e == nil || !e.until.Before(window) {
			break
		}
		if e.outdatedLocked() {
			q.renewLocked(logger, e) // this removes it from the heap
			continue
		}
		q.moveLocked(logger, e, Active, schedframework.BackoffComplete)
	}
	for {
		e := q.errorBackoff.first()
		if e == nil || !e.until.Before(window) {
			break
		}
		// The PreEnqueue plugins admitted the pod when its back-off began, unless one of them
		// failed and caused the back-off. A plugin that fails again moves the pod to a later
		// window, so this loop ends.
		if e.outdatedLocked() {
			q.renewLocked(logger, e)
			continue
		}
		if e.failures == 0 {
			q.moveLocked(logger, e, Active, schedframework.BackoffComplete)
		} else {
			q.enqueueLocked(logger, e, immediately, schedframework.BackoffComplete)
		}
	}
}

// flushUnschedulableLocked retries pods that have been Unschedulable or Gated for too long. It
// makes up for hints that miss an event.
func (q *Queue) flushUnschedulableLocked(logger klog.Logger) {
	now := q.clock.Now()
	for i := len(q.unschedulable.entries) - 1; i >= 0; i-- {
		e := q.unschedulable.entries[i]
		if e.outdatedLocked() {
			continue
		}
		since := e.info.Timestamp
		if e.checked.After(since) {
			since = e.checked
		}
		if now.Sub(since) <= e.profile.maxInUnschedulable {
			continue
		}
		q.enqueueLocked(logger, e, afterBackoff, schedframework.UnschedulableTimeout)
		if e.place.awaitsEvent() {
			e.checked = now
		} else {
			e.info.WasFlushedFromUnschedulable = true
		}
	}
}

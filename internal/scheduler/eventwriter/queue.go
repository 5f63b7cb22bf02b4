// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package eventwriter

import (
	"container/list"
	"sync"
	"time"

	"k8s.io/client-go/tools/record/util"

	"github.com/livesched/livesched/internal/scheduler/metrics"
)

const (
	// maxUrgent bounds the urgent Events that wait, 1 to 2 KB each.
	maxUrgent = 10_000
	// maxDeferred bounds the deferred Events that wait. From highWater on they are written even
	// while the scheduler is busy.
	maxDeferred = 20_000
	highWater   = maxDeferred / 2
	// maxDelay is how long a deferred Event waits for the scheduler to be idle.
	maxDelay = 30 * time.Second
)

// queue holds the Events that are not written yet, and the series that may continue.
//
// Recorders add to it from any goroutine, with any locks held. So it calls no other code while it
// holds its own lock. Workers take from it, and Writer.reportIdle reports to it when the scheduler
// is idle.
//
// Methods that need mu held end in Locked.
type queue struct {
	mu sync.Mutex // guards the fields below
	// ready is signalled when there may be an Event to take, and when the queue closes.
	ready sync.Cond
	// hasDeferred is signalled when there are deferred Events, for reportIdle, and when the queue
	// closes.
	hasDeferred sync.Cond

	urgent, deferred list.List // of *event
	series           seriesCache
	// idle means that deferred Events may be written, as no pods wait for the API server. It is
	// maintained only while there are deferred Events.
	idle bool
	// flushing means that deferred Events no longer wait for an idle time.
	flushing bool
	// closed means that no Events are accepted, and that workers end when all are written.
	closed bool
	// inFlight is the number of Events that workers are writing. They may come back.
	inFlight int
	// Nothing is taken before pausedUntil, since the API server did not answer. probing is true
	// until it answers again: until then, the workers try one Event at a time, not one each.
	pausedUntil time.Time
	probing     bool
	// lastName is the number in the name of the latest Event.
	lastName int64
}

func newQueue() *queue {
	q := &queue{series: seriesCache{events: map[occurrence]*list.Element{}}}
	q.ready.L, q.hasDeferred.L = &q.mu, &q.mu
	return q
}

// add records an Event, or counts it for its series.
func (q *queue) add(e *event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	e.name = q.newNameLocked(e)
	if e.deferrable() {
		q.pushLocked(&q.deferred, maxDeferred, e)
		return
	}
	if known := q.series.find(e); known != nil {
		q.repeatLocked(known, e.first)
		return
	}
	if !q.pushLocked(&q.urgent, maxUrgent, e) {
		return
	}
	if old := q.series.add(e); old != nil {
		q.queueCountLocked(old)
	}
}

// newNameLocked returns a name as client-go's recorders do, made of the object's name and
// the time in nanoseconds. No two names are equal: the second Event would be lost.
func (q *queue) newNameLocked(e *event) string {
	q.lastName = max(q.lastName+1, e.first.UnixNano())
	return util.GenerateEventName(e.regarding.Name, q.lastName)
}

// pushLocked appends an Event to urgent or deferred, unless that is full.
func (q *queue) pushLocked(to *list.List, limit int, e *event) bool {
	if to.Len() >= limit {
		metrics.EventsLost.WithLabelValues(metrics.EventLostFull).Inc()
		return false
	}
	e.pending, e.pendingSince = true, e.last
	to.PushBack(e)
	q.signalLocked()
	return true
}

// repeatLocked counts another occurrence of an Event. The first repetition is written as a deferred
// Event; for later ones, sweep queues the count every few minutes.
func (q *queue) repeatLocked(e *event, now time.Time) {
	e.count++
	e.last = now
	q.series.touch(e)
	if e.count == 2 {
		q.queueCountLocked(e)
	}
}

// queueCountLocked queues a series whose count changed, unless it is queued or being written.
func (q *queue) queueCountLocked(e *event) {
	if !e.pending && e.written != e.count {
		q.pushLocked(&q.deferred, maxDeferred, e)
	}
}

// signalLocked wakes a worker, and reportIdle if there are deferred Events.
func (q *queue) signalLocked() {
	q.ready.Signal()
	if q.deferred.Len() > 0 {
		q.hasDeferred.Signal()
	}
}

// task is an Event to be written, with its counts at the time it was taken.
type task struct {
	*event
	count, written int32
	last           time.Time
}

// take waits for an Event to write. It returns false when the queue is closed and all Events are
// written.
func (q *queue) take() (task, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		if e := q.nextLocked(); e != nil {
			q.inFlight++
			if q.urgent.Len() > 0 || q.deferred.Len() > 0 {
				q.ready.Signal() // one signal may be for several Events
			}
			return task{event: e, count: e.count, written: e.written, last: e.last}, true
		}
		if q.closed && q.inFlight+q.urgent.Len()+q.deferred.Len() == 0 {
			q.ready.Broadcast()
			return task{}, false
		}
		q.ready.Wait()
	}
}

// nextLocked removes and returns the next Event to write, nil if none may be written now.
func (q *queue) nextLocked() *event {
	now := time.Now()
	if now.Before(q.pausedUntil) || q.probing && q.inFlight > 0 {
		return nil
	}
	if first := q.urgent.Front(); first != nil {
		return q.urgent.Remove(first).(*event)
	}
	first := q.deferred.Front()
	if first == nil {
		return nil
	}
	if wait := !q.idle && !q.flushing && q.deferred.Len() < highWater; wait &&
		now.Sub(first.Value.(*event).pendingSince) < maxDelay {
		return nil
	}
	if q.deferred.Len() == 1 {
		q.idle = false
	}
	return q.deferred.Remove(first).(*event)
}

// done ends a task: its Event was written or, if written is false, refused or given up.
func (q *queue) done(t task, written bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.inFlight--
	q.probing = false
	t.event.pending, t.event.tries = false, 0
	if written {
		t.event.written, t.event.writtenAt = t.count, time.Now()
	}
	switch {
	case !t.cached:
	case !written:
		q.series.forget(t.event) // the next occurrence begins a new series
	case t.count == 1:
		q.queueCountLocked(t.event) // it may have occurred again during the write
	}
	q.signalLocked()
	if q.closed {
		q.ready.Broadcast()
	}
}

// retry puts back an Event that could not be written, and pauses all writing.
func (q *queue) retry(t task, pause time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.inFlight--
	t.event.tries++
	q.probing = true
	if t.deferrable() || t.written > 0 {
		q.deferred.PushFront(t.event)
	} else {
		q.urgent.PushFront(t.event)
	}
	if until := time.Now().Add(pause); until.After(q.pausedUntil) {
		q.pausedUntil = until
		time.AfterFunc(pause, q.wake)
	}
}

func (q *queue) wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ready.Broadcast()
}

// flushNow lets deferred Events be written without waiting for an idle time.
func (q *queue) flushNow() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.flushing = true
	q.ready.Broadcast()
}

// close accepts no more Events, and lets the remaining ones be written immediately, counts of
// series included.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed, q.flushing = true, true
	q.series.each(q.queueCountLocked)
	q.ready.Broadcast()
	q.hasDeferred.Broadcast()
}

// pending returns the number of Events that are not written yet.
func (q *queue) pending() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.urgent.Len() + q.deferred.Len() + q.inFlight
}

// awaitDeferred waits until there are deferred Events. It returns false when the queue is closed.
func (q *queue) awaitDeferred() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.deferred.Len() == 0 && !q.closed {
		q.hasDeferred.Wait()
	}
	return !q.closed
}

// setIdle records whether the scheduler is idle. It must be called regularly while there are
// deferred Events.
func (q *queue) setIdle(idle bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.idle = idle && q.deferred.Len() > 0
	// The first deferred Event may also have waited for maxDelay.
	q.ready.Signal()
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package eventwriter

import (
	"sync"
	"time"

	"k8s.io/client-go/tools/record/util"

	"github.com/livesched/livesched/internal/scheduler/metrics"
)

const (
	// maxFirst bounds the Events that wait and may have to be acted on, 1 to 2 KB each.
	maxFirst = 10_000
	// maxLater bounds the Events that can wait. From highWater on they do not wait for idle times
	// any more.
	maxLater  = 20_000
	highWater = maxLater / 2
	// maxDelay is how long they wait for such a time.
	maxDelay = 30 * time.Second
)

// backlog is what has been said and not been written, and the series that may go on.
//
// Recorders add to it from any goroutine, under whatever locks: it calls nobody while it holds its
// own. Workers take from it, and the Writer's watch tells it when the scheduler is idle.
type backlog struct {
	mu sync.Mutex // guards what follows
	// ready is signalled when there may be something to take, and when the backlog closes.
	ready sync.Cond
	// deferred is signalled when there is something in later, for the watch, and when the backlog
	// closes.
	deferred sync.Cond

	first, later lane
	series       memory
	// idle says that what can wait may be written: nobody else waits for the API server. It is
	// known only while later is not empty.
	idle bool
	// hurried says that nothing waits for an idle time any more.
	hurried bool
	// closed says that nothing is taken in any more, and that workers end when all is written.
	closed bool
	// writing is how many Events are with workers. They may come back.
	writing int
	// paused is until when nothing is taken, since the API server does not answer, and doubtful
	// says that it has not answered since: one Event is tried, not as many as there are workers.
	paused   time.Time
	doubtful bool
	// named is the number in the name of the latest Event.
	named int64
}

func newBacklog() *backlog {
	b := &backlog{}
	b.ready.L, b.deferred.L = &b.mu, &b.mu
	b.series.init()
	return b
}

// add takes in something that is said.
func (b *backlog) add(e *event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	e.name = b.newName(e)
	if e.later() {
		b.push(&b.later, maxLater, e)
		return
	}
	if known := b.series.find(e); known != nil {
		b.repeat(known, e.first)
		return
	}
	if !b.push(&b.first, maxFirst, e) {
		return
	}
	if old := b.series.remember(e); old != nil {
		b.bringUpToDate(old)
	}
}

// newName returns a name as client-go's recorders make it, of the object's and the time in
// nanoseconds, but for that no two are the same: the second would be lost. Requires mu.
func (b *backlog) newName(e *event) string {
	b.named = max(b.named+1, e.first.UnixNano())
	return util.GenerateEventName(e.regarding.Name, b.named)
}

// push puts an Event at the end of a lane, unless that is full. Requires mu.
func (b *backlog) push(l *lane, most int, e *event) bool {
	if l.len() >= most {
		metrics.EventsLost.WithLabelValues(metrics.EventLostFull).Inc()
		return false
	}
	e.queued, e.since = true, e.last
	l.pushBack(e)
	b.signal()
	return true
}

// repeat notes that something was said again. The first time is told when there is time; of how
// often it is said from then on, the API server hears every few minutes. Requires mu.
func (b *backlog) repeat(e *event, now time.Time) {
	e.count++
	e.last = now
	b.series.touch(e)
	if e.count == 2 {
		b.bringUpToDate(e)
	}
}

// bringUpToDate has the count of a series written, if it is not known and not about to be. Requires
// mu.
func (b *backlog) bringUpToDate(e *event) {
	if !e.queued && e.written != e.count {
		b.push(&b.later, maxLater, e)
	}
}

// signal wakes whoever may have something to do. Requires mu.
func (b *backlog) signal() {
	b.ready.Signal()
	if b.later.len() > 0 {
		b.deferred.Signal()
	}
}

// task is an Event to be written, as it was when it was taken.
type task struct {
	*event
	count, written int32
	last           time.Time
}

// take waits for an Event whose turn it is. It returns false when the backlog is closed and all is
// written.
func (b *backlog) take() (task, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		if e := b.next(); e != nil {
			b.writing++
			if b.first.len() > 0 || b.later.len() > 0 {
				b.ready.Signal() // one signal may stand for several Events
			}
			return task{event: e, count: e.count, written: e.written, last: e.last}, true
		}
		if b.closed && b.writing == 0 && b.first.len() == 0 && b.later.len() == 0 {
			b.ready.Broadcast()
			return task{}, false
		}
		b.ready.Wait()
	}
}

// next removes the Event whose turn it is, nil if there is none. Requires mu.
func (b *backlog) next() *event {
	now := time.Now()
	if now.Before(b.paused) || b.doubtful && b.writing > 0 {
		return nil
	}
	if e := b.first.popFront(); e != nil {
		return e
	}
	e := b.later.front()
	if e == nil {
		return nil
	}
	if waits := !b.idle && !b.hurried && b.later.len() < highWater; waits && now.Sub(e.since) < maxDelay {
		return nil
	}
	b.later.popFront()
	if b.later.len() == 0 {
		b.idle = false
	}
	return e
}

// done notes what came of a task: it was written, refused, or given up.
func (b *backlog) done(t task, written bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writing--
	b.doubtful = false
	t.event.queued, t.event.tries = false, 0
	if written {
		t.event.written, t.event.writtenAt = t.count, time.Now()
	}
	switch {
	case t.known == nil:
	case !written:
		b.series.forget(t.event) // if it is said again, it is tried again
	case t.count == 1:
		b.bringUpToDate(t.event) // it may have been said for the second time meanwhile
	}
	b.signal()
	if b.closed {
		b.ready.Broadcast()
	}
}

// retry puts an Event back that could not be written, and has nothing taken for a while.
func (b *backlog) retry(t task, pause time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writing--
	t.event.tries++
	b.doubtful = true
	if t.later() || t.written > 0 {
		b.later.pushFront(t.event)
	} else {
		b.first.pushFront(t.event)
	}
	if until := time.Now().Add(pause); until.After(b.paused) {
		b.paused = until
		time.AfterFunc(pause, b.wake)
	}
}

func (b *backlog) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ready.Broadcast()
}

// hurry has nothing wait for an idle time any more.
func (b *backlog) hurry() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hurried = true
	b.ready.Broadcast()
}

// close takes in no more, and has all that is left written at once, counts of series included.
func (b *backlog) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, b.hurried = true, true
	b.series.each(b.bringUpToDate)
	b.ready.Broadcast()
	b.deferred.Broadcast()
}

// waiting is how many Events are not written.
func (b *backlog) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.first.len() + b.later.len() + b.writing
}

// awaitDeferred waits until there is something that can wait. It returns false when the backlog is
// closed.
func (b *backlog) awaitDeferred() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.later.len() == 0 && !b.closed {
		b.deferred.Wait()
	}
	return !b.closed
}

// setIdle says whether nobody else waits for the API server.
func (b *backlog) setIdle(idle bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.idle = idle && b.later.len() > 0
	// The head of the lane may also have become old.
	b.ready.Signal()
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package eventwriter

import (
	"container/list"
	"time"
)

const (
	// maxSeries bounds the series that may continue. The next occurrence of a dropped one begins a
	// new series.
	maxSeries = 10_000
	// seriesTimeout is the time without an occurrence after which a series ends, and the interval
	// at which the count of one that continues is written. The value is client-go's.
	seriesTimeout = 6 * time.Minute
)

// seriesCache holds the Events of the last minutes by key. It has no lock: queue.mu guards it.
type seriesCache struct {
	events map[occurrence]*list.Element // of *event, by key
	// order sorts the Events by their last occurrence, the latest at the back.
	order list.List
}

// find returns the cached Event of the same series as e, nil if there is none.
func (s *seriesCache) find(e *event) *event {
	if element := s.events[e.key()]; element != nil {
		return element.Value.(*event)
	}
	return nil
}

// add caches a new Event. It returns the one that was dropped to make room, nil if there was room.
func (s *seriesCache) add(e *event) (forgotten *event) {
	if s.order.Len() >= maxSeries {
		forgotten = s.order.Front().Value.(*event)
		s.forget(forgotten)
	}
	s.events[e.key()] = s.order.PushBack(e)
	e.cached = true
	return forgotten
}

func (s *seriesCache) touch(e *event) { s.order.MoveToBack(s.events[e.key()]) }

func (s *seriesCache) forget(e *event) {
	k := e.key()
	s.order.Remove(s.events[k])
	delete(s.events, k)
	e.cached = false
}

// each calls f for all cached Events.
func (s *seriesCache) each(f func(*event)) {
	for element := s.order.Front(); element != nil; element = element.Next() {
		f(element.Value.(*event))
	}
}

// sweep drops the series that have ended, and queues those whose count was not written for
// seriesTimeout. It is called every sweepInterval.
func (q *queue) sweep(now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var next *list.Element
	for element := q.series.order.Front(); element != nil; element = next {
		next = element.Next()
		e := element.Value.(*event)
		ended := now.Sub(e.last) >= seriesTimeout
		if e.written > 0 && (ended || now.Sub(e.writtenAt) >= seriesTimeout) {
			q.queueCountLocked(e)
		}
		if ended {
			q.series.forget(e)
		}
	}
}

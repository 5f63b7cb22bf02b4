// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package eventwriter

import (
	"container/list"
	"time"
)

const (
	// maxSeries bounds the series that may go on. One that is forgotten begins anew.
	maxSeries = 10_000
	// seriesEnds is how long after it was said last something that is said again begins a new
	// series, and how often the count of one that goes on is written. The time is client-go's.
	seriesEnds = 6 * time.Minute
)

// memory is what has been said in the last minutes, by what makes it the same. Its owner locks.
type memory struct {
	events map[key]*list.Element // of *event
	// order is by when it was said last, the latest at the back.
	order list.List
}

func (m *memory) init() { m.events = map[key]*list.Element{} }

// find returns what says the same as e, nil if there is nothing.
func (m *memory) find(e *event) *event {
	if element := m.events[e.key()]; element != nil {
		return element.Value.(*event)
	}
	return nil
}

// remember takes in a new one. It returns the one that had to be forgotten for it, nil if there is
// room.
func (m *memory) remember(e *event) (forgotten *event) {
	if m.order.Len() >= maxSeries {
		forgotten = m.order.Front().Value.(*event)
		m.forget(forgotten)
	}
	m.events[e.key()] = m.order.PushBack(e)
	e.known = m
	return forgotten
}

func (m *memory) touch(e *event) { m.order.MoveToBack(m.events[e.key()]) }

func (m *memory) forget(e *event) {
	k := e.key()
	m.order.Remove(m.events[k])
	delete(m.events, k)
	e.known = nil
}

// each calls f for all.
func (m *memory) each(f func(*event)) {
	for element := m.order.Front(); element != nil; element = element.Next() {
		f(element.Value.(*event))
	}
}

// sweep forgets the series that have ended, and calls write for those whose count has not been
// written for long. It is called every minute or so.
func (b *backlog) sweep(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var next *list.Element
	for element := b.series.order.Front(); element != nil; element = next {
		next = element.Next()
		e := element.Value.(*event)
		ended := now.Sub(e.last) >= seriesEnds
		if e.written > 0 && (ended || now.Sub(e.writtenAt) >= seriesEnds) {
			b.bringUpToDate(e)
		}
		if ended {
			b.series.forget(e)
		}
	}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package eventwriter

// lane is a queue of Events. It keeps the room that it once needed until it is empty. Its owner
// locks.
type lane struct {
	// returned are those that came back, the next one last. They go first.
	returned []*event
	events   []*event
	// taken is how many of events are gone.
	taken int
}

func (l *lane) len() int { return len(l.returned) + len(l.events) - l.taken }

func (l *lane) pushBack(e *event)  { l.events = append(l.events, e) }
func (l *lane) pushFront(e *event) { l.returned = append(l.returned, e) }

// front is the next one, nil if there is none.
func (l *lane) front() *event {
	switch {
	case len(l.returned) > 0:
		return l.returned[len(l.returned)-1]
	case l.taken < len(l.events):
		return l.events[l.taken]
	}
	return nil
}

// popFront removes the next one and returns it, nil if there is none.
func (l *lane) popFront() *event {
	e := l.front()
	switch {
	case e == nil:
	case len(l.returned) > 0:
		l.returned[len(l.returned)-1] = nil
		l.returned = l.returned[:len(l.returned)-1]
	default:
		l.events[l.taken] = nil
		l.taken++
		l.compact()
	}
	return e
}

// compact gives up the room of those that are gone, once it is half of all.
func (l *lane) compact() {
	if l.taken == len(l.events) {
		l.events, l.taken = nil, 0
		return
	}
	if l.taken*2 >= len(l.events) && l.taken >= 1024 {
		kept := copy(l.events, l.events[l.taken:])
		clear(l.events[kept:])
		l.events, l.taken = l.events[:kept], 0
	}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package eventwriter

// fifo is a list of Events in the order in which they are written. It keeps its largest capacity
// until it is empty. It has no lock: queue.mu guards it.
type fifo struct {
	// returned holds the Events that came back, the next one last. They precede events.
	returned []*event
	events   []*event
	// events[:head] are taken.
	head int
}

func (f *fifo) len() int { return len(f.returned) + len(f.events) - f.head }

func (f *fifo) pushBack(e *event)  { f.events = append(f.events, e) }
func (f *fifo) pushFront(e *event) { f.returned = append(f.returned, e) }

// front returns the next Event, nil if there is none.
func (f *fifo) front() *event {
	switch {
	case len(f.returned) > 0:
		return f.returned[len(f.returned)-1]
	case f.head < len(f.events):
		return f.events[f.head]
	}
	return nil
}

// popFront removes and returns the next Event, nil if there is none.
func (f *fifo) popFront() *event {
	e := f.front()
	switch {
	case e == nil:
	case len(f.returned) > 0:
		f.returned[len(f.returned)-1] = nil
		f.returned = f.returned[:len(f.returned)-1]
	default:
		f.events[f.head] = nil
		f.head++
		f.compact()
	}
	return e
}

// compact frees the room of taken Events once they are half of all.
func (f *fifo) compact() {
	if f.head == len(f.events) {
		f.events, f.head = nil, 0
		return
	}
	if f.head*2 >= len(f.events) && f.head >= 1024 {
		kept := copy(f.events, f.events[f.head:])
		clear(f.events[kept:])
		f.events, f.head = f.events[:kept], 0
	}
}

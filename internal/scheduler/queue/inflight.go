// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"container/list"
	"iter"
	"time"

	fwk "k8s.io/kube-scheduler/framework"
)

// maxInFlightEvents bounds the events kept for pods in flight. Cycles take milliseconds; a pod that
// waits on Permit for minutes while tens of thousands of events come in is retried after its
// back-off, without an examination of all of them.
const maxInFlightEvents = 1 << 15

// flight is the part of an entry that is used while its pod is in flight.
type flight struct {
	// since is the number of the first event after the pod was popped.
	since uint64
	// started is the InitialAttemptTimestamp of the popped pod. It distinguishes this stay of the
	// pod in the queue from an earlier one.
	started time.Time
	// deleted means that the pod is dropped when it comes back.
	deleted bool
	// failed means that the pod is retried when it comes back; see Queue.RetryLater.
	failed bool
	// groupChanged means the same, since the group of the pod has changed; see retryLocked.
	groupChanged bool

	// element is the entry's place in flights.pods.
	element *list.Element
}

// clusterEvent is an event that came in while pods were in flight.
type clusterEvent struct {
	event          fwk.ClusterEvent
	oldObj, newObj any
	// measured counts the hint calls whose duration was recorded.
	measured int
}

// flights holds the pods in flight in the order in which they were popped, and the events since
// the first of them was popped. Queue.mu guards it.
type flights struct {
	pods list.List // of *entry

	// events[dead:] are the kept events. The number of an event is base plus its index; numbers are
	// never reused.
	events []clusterEvent
	dead   int
	base   uint64

	metrics *metrics
}

// add appends a pod and starts to keep events for it.
func (f *flights) add(e *entry) {
	e.flight.since = f.base + uint64(len(f.events))
	e.flight.element = f.pods.PushBack(e)
	f.metrics.podsInFlight(1)
}

// remove removes a pod, and the events that no other pod needs.
func (f *flights) remove(e *entry) {
	f.pods.Remove(e.flight.element)
	f.metrics.podsInFlight(-1)

	if first := f.pods.Front(); first == nil {
		f.forget(len(f.events))
	} else if since := first.Value.(*entry).flight.since; since > f.base+uint64(f.dead) {
		f.forget(int(since - f.base))
	}
}

// all returns the pods in flight in order. The one at hand may be removed.
func (f *flights) all() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for element := f.pods.Front(); element != nil; {
			next := element.Next()
			if !yield(element.Value.(*entry)) {
				return
			}
			element = next
		}
	}
}

// record keeps an event for all pods in flight.
func (f *flights) record(ev clusterEvent) {
	if f.pods.Len() == 0 {
		return
	}
	if f.len() >= maxInFlightEvents {
		f.forget(f.dead + f.len()/2)
	}
	f.events = append(f.events, ev)
	f.metrics.eventInFlight(ev.event, 1)
}

// eventsSince returns the events since the pod was popped. complete is false if some of them were
// dropped. The slice is valid until the next change.
func (f *flights) eventsSince(e *entry) (events []clusterEvent, complete bool) {
	oldest := f.base + uint64(f.dead)
	if e.flight.since < oldest {
		return f.events[f.dead:], false
	}
	return f.events[e.flight.since-f.base:], true
}

// len returns the number of kept events.
func (f *flights) len() int { return len(f.events) - f.dead }

// forget drops events[:n]. Their room is reused once it is half of the slice.
func (f *flights) forget(n int) {
	for i := f.dead; i < n; i++ {
		f.metrics.eventInFlight(f.events[i].event, -1)
		f.events[i] = clusterEvent{} // releases the objects
	}
	f.dead = n
	if f.dead*2 >= len(f.events) {
		kept := copy(f.events, f.events[f.dead:])
		clear(f.events[kept:])
		f.events = f.events[:kept]
		f.base += uint64(f.dead)
		f.dead = 0
	}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// maxInFlightEvents bounds what is kept for pods in flight. Cycles take milliseconds; a pod that
// waits on Permit for minutes while ten thousands of events go by is retried after its back-off
// instead of having all of them examined.
const maxInFlightEvents = 1 << 15

// flight is the part of an entry that matters while its pod is in flight.
type flight struct {
	// since is the number of the first event after the pod was popped.
	since uint64
	// started tells this life of the pod in the queue from an earlier one of the same pod: it is
	// the InitialAttemptTimestamp of what was popped.
	started time.Time
	// deleted says that the pod is not to come back.
	deleted bool
	// failed says that the pod is to be retried when it comes back; see Queue.RetryLater.
	failed bool

	prev, next *entry
}

// clusterEvent is an event that came in while pods were in flight.
type clusterEvent struct {
	event          fwk.ClusterEvent
	oldObj, newObj any
	// reloaded, if not nil, are the scheduler names whose pods the event concerns: their profiles
	// changed.
	reloaded sets.Set[string]
	// measured counts the hints of which the duration was recorded.
	measured int
}

// inFlight is the pods in flight in the order in which they were popped, and the events since the
// first of these. Queue.mu guards it.
type inFlight struct {
	first, last *entry
	pods        int

	// events[dead:] are kept. The number of an event is base plus its index; numbers are never used
	// again.
	events []clusterEvent
	dead   int
	base   uint64

	metrics *metrics
}

// add begins to keep events for a pod.
func (f *inFlight) add(e *entry) {
	e.flight.since = f.base + uint64(len(f.events))
	e.flight.prev, e.flight.next = f.last, nil
	if f.last == nil {
		f.first = e
	} else {
		f.last.flight.next = e
	}
	f.last = e
	f.pods++
	f.metrics.podsInFlight(1)
}

// remove lets go of a pod, and of the events that no other pod needs.
func (f *inFlight) remove(e *entry) {
	prev, next := e.flight.prev, e.flight.next
	if prev == nil {
		f.first = next
	} else {
		prev.flight.next = next
	}
	if next == nil {
		f.last = prev
	} else {
		next.flight.prev = prev
	}
	e.flight.prev, e.flight.next = nil, nil
	f.pods--
	f.metrics.podsInFlight(-1)

	if f.first == nil {
		f.forget(len(f.events))
	} else if since := f.first.flight.since; since > f.base+uint64(f.dead) {
		f.forget(int(since - f.base))
	}
}

// record keeps an event for all pods in flight.
func (f *inFlight) record(ev clusterEvent) {
	if f.pods == 0 {
		return
	}
	if f.len() >= maxInFlightEvents {
		f.forget(f.dead + f.len()/2)
	}
	f.events = append(f.events, ev)
	f.metrics.eventInFlight(ev.event, 1)
}

// eventsSince returns what came in since the pod was popped. complete is false if some of it was
// forgotten. The slice is valid until the next change.
func (f *inFlight) eventsSince(e *entry) (events []clusterEvent, complete bool) {
	oldest := f.base + uint64(f.dead)
	if e.flight.since < oldest {
		return f.events[f.dead:], false
	}
	return f.events[e.flight.since-f.base:], true
}

// len is the number of events kept.
func (f *inFlight) len() int { return len(f.events) - f.dead }

// forget drops events[:n]. Their slots are reused once they are half of the slice.
func (f *inFlight) forget(n int) {
	for i := f.dead; i < n; i++ {
		f.metrics.eventInFlight(f.events[i].event, -1)
		f.events[i] = clusterEvent{} // lets go of the objects
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

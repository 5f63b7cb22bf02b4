// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestPendingPods(t *testing.T) {
	shut := newDoor("G", nil)
	f := newFixture(t, preEnqueueOf(shut))
	f.Add(logger, newPod("flying"))
	f.pop()
	f.Add(logger, newPod("unschedulable"))
	f.giveBack(f.pop(), []string{"B", "C"}, []string{"P"})
	for _, name := range []string{"backoff-1", "backoff-2"} {
		f.Add(logger, newPod(name))
		f.reject("A")
		f.clock.Step(time.Second)
	}
	f.clock.Step(-2 * time.Second)
	f.event(nodeAdded)
	f.Add(logger, newPod("error"))
	f.reject()
	f.Add(logger, newPod("active-2"))
	f.Add(logger, newPod("active-1", priority(1)))
	shut.status = refusal
	f.Add(logger, newPod("gated"))

	var got []string
	for _, s := range f.PendingPods() {
		got = append(got, s.Place.String()+" "+s.Pod.Name)
		switch s.Pod.Name {
		case "unschedulable":
			f.Expect(s.UnschedulablePlugins).To(Equal([]string{"B", "C"}))
			f.Expect(s.PendingPlugins).To(Equal([]string{"P"}))
			f.Expect(s.Attempts).To(Equal(1))
			f.Expect(s.BackoffEnd).To(BeZero())
		case "backoff-2":
			f.Expect(s.BackoffEnd).To(Equal(f.clock.Now().Add(2 * time.Second)))
		case "gated":
			f.Expect(s.GatingPlugin).To(Equal("G"))
			f.Expect(s.Timestamp).To(Equal(f.clock.Now()))
		case "flying":
			f.Expect(s.Attempts).To(BeZero(), "it belongs to its cycle")
		}
	}
	f.Expect(got).To(Equal([]string{
		"Active active-1", "Active active-2", "Backoff backoff-1", "Backoff backoff-2", "ErrorBackoff error",
		"Unschedulable unschedulable", "Gated gated", "InFlight flying",
	}))
	f.Expect(f.Counts()).To(Equal(Counts{Active: 2, Backoff: 2, ErrorBackoff: 1, Unschedulable: 1, Gated: 1,
		InFlight: 1, InFlightEvents: 1}))
	f.Expect(f.Has("flying")).To(BeTrue())
	f.Expect(f.Has("nobody")).To(BeFalse())
}

// PendingPods lists all pods in the queue: place by place, Active and Backoff pods in the order
// in which they would be popped, the others by their back-off or age.
func (q *Queue) PendingPods() []PodState {
	q.mu.Lock()
	defer q.mu.Unlock()
	entries := make([]*entry, 0, len(q.pods))
	for _, e := range q.pods {
		entries = append(entries, e)
	}
	slices.SortFunc(entries, q.compareLocked)
	states := make([]PodState, len(entries))
	for i, e := range entries {
		states[i] = e.state()
	}
	return states
}

// compareLocked compares entries in the order of PendingPods.
func (q *Queue) compareLocked(a, b *entry) int {
	if c := cmp.Compare(a.place, b.place); c != 0 {
		return c
	}
	before := func(a, b *entry) bool { return a.flight.since < b.flight.since }
	switch a.place {
	case Active:
		before = q.lessLocked
	case Backoff:
		before = q.lessBackoffLocked
	case ErrorBackoff:
		before = q.lessErrorBackoffLocked
	case Unschedulable, Gated:
		before = func(a, b *entry) bool { return a.info.Timestamp.Before(b.info.Timestamp) }
	}
	switch {
	case before(a, b):
		return -1
	case before(b, a):
		return 1
	}
	return byName(a.pod, b.pod)
}

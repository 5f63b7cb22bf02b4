// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"math/rand/v2"
	"testing"

	. "github.com/onsi/gomega"
)

// TestInFlightTwin compares the list of pods in flight with one that keeps a list of events per
// pod.
func TestInFlightTwin(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	g := NewWithT(t)

	f := inFlight{metrics: newMetrics(nil)}
	type twin struct {
		entry  *entry
		events []any
	}
	var order []*twin // as popped
	next := 0
	for step := range 20_000 {
		switch {
		case r.IntN(4) == 0:
			tw := &twin{entry: &entry{}}
			f.add(tw.entry)
			order = append(order, tw)
		case r.IntN(3) == 0 && len(order) != 0:
			i := r.IntN(len(order))
			f.remove(order[i].entry)
			order = append(order[:i:i], order[i+1:]...)
		default:
			f.record(clusterEvent{event: nodeAdded, newObj: next})
			for _, tw := range order {
				tw.events = append(tw.events, next)
			}
			next++
		}
		g.Expect(f.pods).To(Equal(len(order)))
		if len(order) == 0 {
			g.Expect(f.len()).To(BeZero())
			continue
		}
		g.Expect(f.len()).To(Equal(len(order[0].events)), "only what the first pod needs is kept, step %d", step)
		if step%20 != 0 {
			continue
		}
		tw := order[r.IntN(len(order))]
		events, complete := f.eventsSince(tw.entry)
		g.Expect(complete).To(BeTrue())
		var got []any
		for _, ev := range events {
			got = append(got, ev.newObj)
		}
		g.Expect(got).To(Equal(tw.events))
		for _, ev := range f.events[:f.dead] {
			g.Expect(ev).To(BeZero(), "objects of forgotten events are let go")
		}
		for _, ev := range f.events[len(f.events):cap(f.events)] {
			g.Expect(ev).To(BeZero())
		}
	}
}

func TestInFlightEventsAreBounded(t *testing.T) {
	f := newFixture(t)
	f.Add(logger, newPod("early"))
	early := f.pop()
	for range maxInFlightEvents {
		f.event(claimAdded)
	}
	f.Add(logger, newPod("late"))
	late := f.pop()
	f.Expect(f.Counts().InFlightEvents).To(Equal(maxInFlightEvents))
	f.event(claimAdded)
	f.Expect(f.Counts().InFlightEvents).To(Equal(maxInFlightEvents/2 + 1))
	f.giveBack(early, []string{"A"}, nil)
	f.giveBack(late, []string{"A"}, nil)
	f.Expect(f.place(early.Pod)).To(Equal(Backoff), "something that helps it may have been forgotten")
	f.Expect(f.place(late.Pod)).To(Equal(Unschedulable))
	f.Expect(f.Counts().InFlightEvents).To(BeZero())
}

func TestPodsWithoutEventsCostNothing(t *testing.T) {
	f := newFixture(t)
	f.event(nodeAdded)
	for i := range 100 {
		pod := newPod(fmt.Sprint("p", i))
		f.Add(logger, pod)
		f.pop()
		f.event(nodeAdded)
		f.Delete(logger, pod)
		f.Done(pod.UID)
		f.Done(pod.UID)
	}
	f.Expect(f.Counts()).To(Equal(Counts{}))
	f.Expect(f.pods).To(BeEmpty())
	f.Expect(cap(f.inFlight.events)).To(BeNumerically("<", 10))
	f.Expect(f.inFlight.first).To(BeNil())
}

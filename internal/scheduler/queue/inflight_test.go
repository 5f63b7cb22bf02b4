// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
)

// TestInFlightTwin compares the list of pods in flight with one that keeps a list of events per
// pod.
func TestInFlightTwin(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	f := flights{metrics: newMetrics(nil)}
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
		if f.pods.Len() != len(order) {
			t.Fatalf("step %d: %d pods are in flight, want %d", step, f.pods.Len(), len(order))
		}
		needed := 0 // by the first pod
		if len(order) > 0 {
			needed = len(order[0].events)
		}
		if f.len() != needed {
			t.Fatalf("step %d: %d events are kept, want the %d that the first pod needs", step, f.len(), needed)
		}
		if len(order) == 0 || step%20 != 0 {
			continue
		}
		tw := order[r.IntN(len(order))]
		events, complete := f.eventsSince(tw.entry)
		var got []any
		for _, ev := range events {
			got = append(got, ev.newObj)
		}
		if !complete || !slices.Equal(got, tw.events) {
			t.Fatalf("step %d: the events of a pod are %v (complete: %v), want %v", step, got, complete, tw.events)
		}
		for _, ev := range slices.Concat(f.events[:f.dead], f.events[len(f.events):cap(f.events)]) {
			if !reflect.ValueOf(ev).IsZero() {
				t.Fatalf("step %d: the objects of a forgotten event are kept: %v", step, ev)
			}
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
	f.Expect(f.inFlight.pods.Len()).To(BeZero())
}

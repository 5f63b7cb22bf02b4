// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/sets"
)

// with returns the counts with one more pod in a place.
func (p Pending) with(place Place) Pending {
	switch place {
	case Active:
		p.Active++
	case Backoff, ErrorBackoff:
		p.Backoff++
	case Unschedulable:
		p.Unschedulable++
	case Gated:
		p.Gated++
	}
	return p
}

func TestPendingByProfile(t *testing.T) {
	f := newFixture(t, preEnqueueOf(newDoor("G", nil)))
	f.settings.Profiles["other"] = profileOf(preEnqueueOf(newDoor("G", refusal)))
	f.Reconfigure(logger, f.settings, nil)
	f.Expect(f.PendingByProfile()).To(Equal(map[string]Pending{"default": {}, "other": {}}))
	for _, name := range []string{"a", "b", "c"} {
		f.Add(logger, newPod(name))
	}
	f.Add(logger, newPod("gated", scheduler("other")))
	f.reject("A") // refused
	f.reject()    // an error
	f.Expect(f.PendingByProfile()).
		To(Equal(map[string]Pending{"default": {Active: 1, Backoff: 1, Unschedulable: 1}, "other": {Gated: 1}}))
	f.pop()
	f.Expect(f.PendingByProfile()["default"]).To(Equal(Pending{Backoff: 1, Unschedulable: 1}),
		"a pod in flight is in no queue")

	f.Reconfigure(logger, f.settings, sets.New("default"))
	f.Expect(f.PendingByProfile()["default"]).To(Equal(Pending{Active: 2}), "a reload evaluates the waiting pods again")
	delete(f.settings.Profiles, "other")
	f.Reconfigure(logger, f.settings, sets.New("other"))
	f.Expect(f.PendingByProfile()).To(Equal(map[string]Pending{"default": {Active: 2}}))
	f.settings.Profiles["other"] = profileOf()
	f.Reconfigure(logger, f.settings, nil)
	f.Expect(f.PendingByProfile()["other"]).
		To(Equal(Pending{}), "the pods of a profile that was removed have left the queue")
}

// The counts are read from counters: neither what holds the pods nor the pods are looked at.
func TestPendingByProfileLooksAtNoPod(t *testing.T) {
	f := newFixture(t)
	allocations := func() float64 { return testing.AllocsPerRun(10, func() { f.PendingByProfile() }) }
	few := allocations()
	const pods = 10_000
	for i := range pods {
		f.Add(logger, newPod(fmt.Sprint(i)))
	}
	f.Expect(allocations()).To(Equal(few))
	f.pods, f.active.entries, f.unschedulable.entries = nil, nil, nil
	f.Expect(f.PendingByProfile()).To(Equal(map[string]Pending{"default": {Active: pods}}))
}

func BenchmarkPendingByProfile(b *testing.B) {
	for _, pods := range []int{0, 100_000} {
		b.Run(fmt.Sprint(pods), func(b *testing.B) {
			q := New(Config{})
			q.Reconfigure(logger,
				&Settings{Profiles: map[string]*ProfileSettings{"default": {MaxBackoff: time.Second}}}, nil)
			for i := range pods {
				q.Add(logger, newPod(fmt.Sprint(i)))
			}
			for b.Loop() {
				q.PendingByProfile()
			}
		})
	}
}

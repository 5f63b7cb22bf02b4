// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestWait(t *testing.T) {
	h := &askedHint{}
	shut := newDoor("G", nil)
	f := newFixture(t, h.settings, preEnqueueOf(shut))
	wait := func(uid string) Wait {
		t.Helper()
		w, ok := f.Wait(newPod(uid).UID)
		f.Expect(ok).To(BeTrue())
		return w
	}

	f.waitFor(3, "a", "A")
	f.waitFor(2, "b", "A")
	f.waitFor(2, "odd", "A")
	w := wait("a-A-0")
	f.Expect(w.Place).To(Equal(Unschedulable))
	f.Expect(w.Alike).To(Equal(2), "pods of another kind wait for other reasons")
	f.Expect(w.NextTry).To(Equal(f.clock.Now().Add(DefaultMaxInUnschedulable)))
	f.Expect(w.Events).To(Equal([]AwaitedEvent{{Event: nodeAdded, Plugins: []string{"A"}}}))
	f.Expect(wait("odd-A-0").Alike).To(BeZero(), "what their hints read is not known")

	f.clock.Step(DefaultMaxInUnschedulable / 2)
	f.event(nodeAdded)
	f.Expect(wait("a-A-0").Place).To(Equal(Unschedulable), "the hint said that the event does not help")
	f.Expect(wait("a-A-0").NextTry).To(Equal(f.clock.Now().Add(DefaultMaxInUnschedulable / 2)))

	f.Add(logger, newPod("again"))
	f.reject("B")
	f.event(claimAdded)
	w = wait("again")
	f.Expect(w.Place).To(Equal(Backoff))
	f.Expect(w.NextTry).To(BeTemporally("~", f.clock.Now().Add(time.Second), time.Second))
	f.Expect(w.Events).To(BeEmpty())

	f.Add(logger, newPod("active"))
	f.Expect(wait("active").NextTry).To(BeZero())
	shut.status = refusal
	f.Add(logger, newPod("gated"))
	f.Expect(wait("gated").GatingPlugin).To(Equal("G"))
	_, ok := f.Wait("nobody")
	f.Expect(ok).To(BeFalse())
}

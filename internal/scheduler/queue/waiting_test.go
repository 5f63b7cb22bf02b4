// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/mapkey"
	"github.com/livesched/livesched/test/objects"
)

// askedHint is a hint of plugin A for added nodes. It counts its calls and reads the label "kind".
type askedHint struct {
	calls int
	// queues are the kinds of pods that the event helps.
	queues map[string]bool
}

func (h *askedHint) settings(p *ProfileSettings) {
	p.Hints = HintMap{
		nodeAdded: {{Plugin: "A", Fn: func(_ klog.Logger, pod *corev1.Pod, _, _ any) (fwk.QueueingHint, error) {
			h.calls++
			if h.queues[pod.Labels["kind"]] {
				return fwk.Queue, nil
			}
			return fwk.QueueSkip, nil
		}}},
		claimAdded: {{Plugin: "B"}},
	}
	p.HintKeys = map[string]HintKey{"A": {Write: func(w *mapkey.Writer, pod *corev1.Pod) bool {
		w.Text(pod.Labels["kind"])
		return pod.Labels["kind"] != "odd"
	}}}
}

// waitFor adds pods of a kind that a plugin has refused.
func (f *fixture) waitFor(n int, kind, plugin string) (pods []*corev1.Pod) {
	f.t.Helper()
	for i := range n {
		f.Add(logger, newPod(fmt.Sprint(kind, "-", plugin, "-", i), label("kind", kind)))
		pods = append(pods, f.reject(plugin))
	}
	return pods
}

func TestAHintIsCalledOnceForPodsThatAreAlike(t *testing.T) {
	h := &askedHint{queues: map[string]bool{"b": true}}
	f := newFixture(t, h.settings)
	a, b := f.waitFor(1000, "a", "A"), f.waitFor(10, "b", "A")
	f.waitFor(1000, "b", "B") // plugin A did not refuse these
	f.event(nodeAdded)
	f.Expect(h.calls).To(Equal(2))
	f.Expect(f.place(a[0])).To(Equal(Unschedulable))
	for _, pod := range b {
		f.Expect(f.place(pod)).To(Equal(Backoff))
	}
	f.Expect(f.Counts()).To(Equal(Counts{Backoff: 10, Unschedulable: 2000}))
}

func TestNoHintIsCalledForAnEventThatNobodyWaitsFor(t *testing.T) {
	h := &askedHint{}
	f := newFixture(t, h.settings)
	f.waitFor(10, "a", "B")
	f.event(nodeAdded)
	f.Expect(h.calls).To(BeZero())
}

func TestAHintIsCalledForEachPodWithoutAKey(t *testing.T) {
	h := &askedHint{}
	f := newFixture(t, h.settings)
	f.waitFor(10, "odd", "A")
	f.event(nodeAdded)
	f.Expect(h.calls).To(Equal(10))
}

func TestAPodWhoseKeyChangesIsAskedAboutAsWhatItIsNow(t *testing.T) {
	h := &askedHint{queues: map[string]bool{"b": true}}
	f := newFixture(t, h.settings)
	pods := f.waitFor(3, "a", "A")
	changed := objects.Edited(pods[1], label("kind", "b"))
	f.Update(logger, pods[1], changed)
	f.event(nodeAdded)
	f.Expect(f.place(pods[0])).To(Equal(Unschedulable))
	f.Expect(f.place(changed)).To(Equal(Backoff))
}

func TestAMassMoveLetsOthersIn(t *testing.T) {
	h := &askedHint{queues: map[string]bool{"a": true}}
	f := newFixture(t, h.settings)
	f.waitFor(3*turnPods, "a", "A")
	m := newMove(f.Queue, logger, clusterEvent{event: nodeAdded}, nil)
	for turns, moved := 0, 0; m.runTurn(); turns++ {
		now := f.Counts().Backoff
		f.Expect(now-moved).To(BeNumerically("<=", turnPods), "in one turn")
		f.Expect(turns).To(BeNumerically("<", 100*turnPods), "turns")
		moved = now
	}
	f.Expect(f.Counts()).To(Equal(Counts{Backoff: 3 * turnPods}))
	f.Expect(h.calls).To(Equal(1))
}

// A move takes turns, between which pods are popped.
func TestTheMostImportantPodsMoveFirst(t *testing.T) {
	f := newFixture(t)
	pods := []*corev1.Pod{newPod("least", priority(-1)), newPod("most", priority(2)), newPod("middling", priority(1)),
		newPod("none")}
	for _, pod := range pods {
		f.Add(logger, pod)
		f.reject("A")
	}
	f.clock.Step(time.Minute)
	m := newMove(f.Queue, logger, clusterEvent{event: nodeAdded}, nil)
	m.maxPods = 1
	var popped []string
	for more := true; more; {
		more = m.runTurn()
		for f.Counts().Active > 0 {
			popped = append(popped, f.pop().Pod.Name)
		}
	}
	f.Expect(popped).To(Equal([]string{"most", "middling", "none", "least"}))
}

func TestPodsThatChangeDuringAMoveAreMovedByWhatTheyAreThen(t *testing.T) {
	h := &askedHint{queues: map[string]bool{"a": true}}
	f := newFixture(t, h.settings)
	pods := f.waitFor(4, "a", "A")
	m := newMove(f.Queue, logger, clusterEvent{event: nodeAdded}, nil)
	m.maxPods = 1
	f.Expect(m.runTurn()).To(BeTrue(), "the hint has been called, no pod has moved")
	f.Expect(f.Counts().Unschedulable).To(Equal(4))

	other := objects.Edited(pods[1], label("kind", "b"))
	f.Update(logger, pods[1], other)
	f.Delete(logger, pods[2])
	// One pod is scheduled and refused again, after the event.
	f.Activate(logger, map[string]*corev1.Pod{"": pods[3]})
	f.reject("A")

	for m.runTurn() {
	}
	f.Expect(f.place(pods[0])).To(Equal(Backoff))
	f.Expect(f.place(other)).To(Equal(Unschedulable), "the event does not help it any more")
	f.Expect(f.Has(pods[2].UID)).To(BeFalse())
	f.Expect(f.place(pods[3])).To(Equal(Unschedulable), "its last attempt was after the event")
}

func TestACloseDuringAMoveEndsIt(t *testing.T) {
	h := &askedHint{queues: map[string]bool{"a": true}}
	f := newFixture(t, h.settings)
	f.waitFor(4, "a", "A")
	m := newMove(f.Queue, logger, clusterEvent{event: nodeAdded}, nil)
	m.maxPods = 1
	f.Expect(m.runTurn()).To(BeTrue())
	f.Close()
	f.Expect(m.runTurn()).To(BeFalse())
}

func TestAllBackoffsOfAWindowEndTogether(t *testing.T) {
	f := newFixture(t)
	f.waitFor(2*turnPods, "a", "A")
	f.event(nodeAdded)
	f.Expect(f.Counts().Backoff).To(Equal(2 * turnPods))
	f.step(10 * time.Second)
	f.Expect(f.Counts().Active).To(Equal(2 * turnPods))
}

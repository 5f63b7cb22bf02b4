// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/test/objects"
)

// reports returns what the queue reports of the pods that are held, by their names.
func (f *fixture) reports() map[string]HoldReason {
	reports := map[string]HoldReason{}
	f.ReportHeld(math.MaxInt, func(h Held) bool {
		f.Expect(reports).NotTo(HaveKey(h.Pod.Name), "it is reported twice")
		reports[h.Pod.Name] = h.HoldReason
		return true
	})
	return reports
}

func TestHeldPods(t *testing.T) {
	t.Run("a pod that a plugin holds is reported once, after a delay, with the plugin's message", func(t *testing.T) {
		f := newFixture(t, preEnqueueOf(newDoor("A", refusal)))
		f.Add(logger, newPod("a"))
		f.step(holdDelay - time.Millisecond)
		f.Expect(f.reports()).To(BeEmpty())
		f.step(time.Millisecond)
		f.Expect(f.reports()).To(Equal(map[string]HoldReason{"a": {Plugin: "A", Message: "not yet"}}))
		f.step(time.Hour)
		f.Expect(f.reports()).To(BeEmpty())
	})
	t.Run("a pod that leaves the gate in time is not reported", func(t *testing.T) {
		shut := newDoor("A", refusal)
		f := newFixture(t, preEnqueueOf(shut))
		f.Add(logger, newPod("opened"))
		f.step(holdDelay / 2)
		shut.status = nil
		f.event(nodeAdded)
		shut.status = refusal
		f.Add(logger, newPod("deleted"))
		f.Delete(logger, newPod("deleted"))
		f.step(holdDelay)
		f.Expect(f.reports()).To(BeEmpty())
		f.Expect(f.held.Len()).To(BeZero())
	})
	t.Run("another message is reported, but not right after the last report", func(t *testing.T) {
		shut := newDoor("A", refusal)
		f := newFixture(t, preEnqueueOf(shut))
		f.Add(logger, newPod("a"))
		f.step(holdDelay)
		f.Expect(f.reports()).To(HaveLen(1))
		shut.status = fwk.NewStatus(fwk.Unschedulable, "not now")
		f.event(nodeAdded)
		f.step(holdInterval - time.Second)
		f.Expect(f.reports()).To(BeEmpty())
		f.step(holdDelay)
		f.Expect(f.reports()).To(Equal(map[string]HoldReason{"a": {Plugin: "A", Message: "not now"}}))
	})
	t.Run("a report that got lost is repeated, but not at once", func(t *testing.T) {
		f := newFixture(t, preEnqueueOf(newDoor("A", refusal)))
		pod := newPod("a")
		f.Add(logger, pod)
		f.step(holdDelay)
		f.Expect(f.reports()).To(HaveLen(1))
		f.RepeatHeld(pod.UID)
		f.step(holdInterval - time.Second)
		f.Expect(f.reports()).To(BeEmpty())
		f.step(holdDelay)
		f.Expect(f.reports()).To(HaveLen(1))
		f.step(time.Hour)
		f.Expect(f.reports()).To(BeEmpty())
		f.RepeatHeld("gone")
	})
	t.Run("a pod that is held again is reported again", func(t *testing.T) {
		shut := newDoor("A", refusal)
		f := newFixture(t, preEnqueueOf(shut))
		f.Add(logger, newPod("a"))
		f.step(holdDelay)
		f.Expect(f.reports()).To(HaveLen(1))
		shut.status = nil
		f.event(nodeAdded)
		shut.status = refusal
		f.reject("B")
		f.step(holdInterval)
		f.event(claimAdded)
		f.step(holdDelay)
		f.Expect(f.reports()).To(HaveLen(1))
	})
	t.Run("a pod is listed again when it is refused again long after its report", func(t *testing.T) {
		f := newFixture(t, preEnqueueOf(newDoor("A", refusal)))
		f.Add(logger, newPod("a"))
		f.step(holdDelay)
		f.Expect(f.reports()).To(HaveLen(1))
		f.event(nodeAdded)
		f.step(holdInterval)
		f.Expect(f.reports()).To(BeEmpty())
		f.event(nodeAdded)
		f.step(holdDelay)
		f.Expect(f.reports()).To(HaveLen(1), "its condition may not have been written")
	})
	t.Run("the error of a plugin is reported, through all retries", func(t *testing.T) {
		f := newFixture(t, preEnqueueOf(newDoor("A", fwk.AsStatus(errors.New("sorry")))))
		f.Add(logger, newPod("a"))
		for range 10 {
			f.step(time.Second)
		}
		f.Expect(f.reports()).To(Equal(map[string]HoldReason{"a": {Message: "A: sorry"}}))
	})
	t.Run("neither pods with scheduling gates nor preemptors are reported", func(t *testing.T) {
		f := newFixture(t, preEnqueueOf(newDoor(names.DefaultPreemption, refusal)))
		f.Add(logger, newPod("preemptor"))
		f.step(time.Hour)
		f.Expect(f.reports()).To(BeEmpty())

		f = newFixture(t, preEnqueueOf(newDoor("A", refusal)))
		gated := newPod("a", gates("x"))
		f.Add(logger, gated)
		f.step(time.Hour)
		f.Expect(f.reports()).To(BeEmpty())
		f.Update(logger, gated, objects.Edited(gated, gates()))
		f.step(holdDelay)
		f.Expect(f.reports()).To(HaveLen(1), "A still holds it")
	})
	t.Run("a call stops at its limit, and what wrote nothing does not count", func(t *testing.T) {
		f := newFixture(t, preEnqueueOf(newDoor("A", refusal)))
		for i := range 3 * turnPods {
			f.Add(logger, newPod(fmt.Sprint(i)))
		}
		f.step(holdDelay)
		calls := 0
		f.ReportHeld(2, func(Held) bool { calls++; return calls > turnPods })
		f.Expect(calls).To(Equal(turnPods + 2))
		f.Expect(f.reports()).To(HaveLen(2*turnPods - 2))
	})
	t.Run("a reload repeats no report", func(t *testing.T) {
		f := newFixture(t, preEnqueueOf(newDoor("A", refusal)))
		f.Add(logger, newPod("a"))
		f.step(holdDelay)
		f.Expect(f.reports()).To(HaveLen(1))
		f.Reconfigure(logger, &Settings{
			Profiles: map[string]*ProfileSettings{"default": profileOf(preEnqueueOf(newDoor("A", refusal)))}}, nil)
		f.step(holdDelay)
		f.Expect(f.reports()).To(BeEmpty())
	})
}

func TestHeldPodsOfGroups(t *testing.T) {
	incomplete := func(needed int) HoldReason {
		return HoldReason{Plugin: podgroup.Gate,
			Message: fmt.Sprintf("fewer than %d pods of the pod group ns/g are ready to be scheduled", needed)}
	}
	t.Run("they are not reported to have no PodGroup before PodGroups are listed", func(t *testing.T) {
		f, groups := withGroups(t)
		listed := false
		groups.SetServed(podgroup.SchedulerPlugins, func() bool { return true }, func() bool { return listed })
		f.Add(logger, newPod("a", memberOf("g")))
		f.step(holdDelay)
		f.Expect(f.reports()).To(Equal(map[string]HoldReason{
			"a": {Plugin: podgroup.Gate,
				Message: "PodGroup ns/g is not known yet: livesched has not listed the PodGroups"},
		}))
		listed = true
		f.step(holdInterval)
		f.step(holdDelay)
		f.Expect(f.reports()).
			To(Equal(map[string]HoldReason{"a": {Plugin: podgroup.Gate, Message: "there is no PodGroup ns/g"}}))
	})
	t.Run("they are reported without a PodGroup, and when they are too few, but not for each pod that comes",
		func(t *testing.T) {
			f, _ := withGroups(t)
			f.Add(logger, newPod("a", memberOf("g")))
			f.step(holdDelay)
			f.Expect(f.reports()).
				To(Equal(map[string]HoldReason{"a": {Plugin: podgroup.Gate, Message: "there is no PodGroup ns/g"}}))
			f.setGroup("g", 3)
			f.step(holdInterval)
			f.Expect(f.reports()).To(Equal(map[string]HoldReason{"a": incomplete(3)}))
			f.Add(logger, newPod("b", memberOf("g")))
			f.step(holdInterval)
			f.Expect(f.reports()).To(Equal(map[string]HoldReason{"b": incomplete(3)}))
			f.setGroup("g", 4)
			f.step(holdInterval)
			f.Expect(f.reports()).To(Equal(map[string]HoldReason{"a": incomplete(4), "b": incomplete(4)}))
		})
	t.Run("they are reported again when their group is created again", func(t *testing.T) {
		f, groups := withGroups(t)
		key := f.setGroup("g", 3)
		f.Add(logger, newPod("a", memberOf("g")))
		f.step(holdDelay)
		f.Expect(f.reports()).To(Equal(map[string]HoldReason{"a": incomplete(3)}))
		groups.DeleteGroup(key)
		f.GroupChanged(logger, key)
		f.setGroup("g", 3)
		f.step(holdInterval)
		f.Expect(f.reports()).To(Equal(map[string]HoldReason{"a": incomplete(3)}), "its status has no condition")
		f.step(time.Hour)
		f.Expect(f.reports()).To(BeEmpty())
	})
	t.Run("they are not reported if the group is complete in time", func(t *testing.T) {
		f, _ := withGroups(t)
		f.setGroup("g", 2)
		f.Add(logger, newPod("a", memberOf("g")))
		f.step(holdDelay - time.Second)
		f.Add(logger, newPod("b", memberOf("g")))
		f.step(holdDelay)
		f.Expect(f.reports()).To(BeEmpty())
	})
}

// reportHeld reports some of the pods that are held or, after a long time, all of them.
func (w *twinWorld) reportHeld() {
	all := w.r.IntN(2) == 0
	limit := 1 + w.r.IntN(3)
	if all {
		limit = math.MaxInt
		w.clock.Step(holdDelay + holdInterval)
	}
	w.queue.ReportHeld(limit, func(h Held) bool {
		p := w.model.pods[h.Pod.UID]
		if p == nil || h.Pod != p.pod || !p.reportable() || h.Plugin != p.gate {
			w.fatalf("%s is reported as held by %+v, but is %+v", h.Pod.UID, h.HoldReason, p)
		}
		w.note("reported as held")
		return true
	})
	if all && w.queue.held.Len() > 0 {
		w.fatalf("%d pods have not been reported", w.queue.held.Len())
	}
}

// reportable reports whether a pod that has no node is held by a PreEnqueue plugin, and not by its
// own gates.
func (p *modelPod) reportable() bool {
	return len(p.pod.Spec.SchedulingGates) == 0 && p.pod.Spec.NodeName == "" &&
		(p.place == Gated || p.place == ErrorBackoff && p.failures > 0)
}

// compareHeld checks that pods are listed whose hold has not been reported, and no others.
func (w *twinWorld) compareHeld() {
	listed := 0
	for uid, e := range w.queue.pods {
		h, held := &e.hold, w.model.pods[uid].reportable()
		if h.listed != nil {
			listed++
		}
		reason := HoldReason{}
		if e.info != nil {
			reason = e.heldIn(e.place)
		}
		if held != (reason != HoldReason{}) || !held && (h.listed != nil || h.reported != HoldReason{}) ||
			h.listed == nil && h.reported != reason || h.listed != nil && h.listed.Value != e {
			w.fatalf("%s is held: %v, but listed: %v, reported: %+v", uid, held, h.listed != nil, h.reported)
		}
	}
	if listed != w.queue.held.Len() {
		w.fatalf("%d pods are listed as held, want %d", w.queue.held.Len(), listed)
	}
}

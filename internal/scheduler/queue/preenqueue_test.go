// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/schedulinggates"

	"github.com/livesched/livesched/test/objects"
)

// ungater is a door that the queue asks before it calls it again.
type ungater struct{ *door }

func (u *ungater) GatesUntilUngated(*corev1.Pod) bool { return u.status != nil }

func TestGatedPods(t *testing.T) {
	t.Run("a pod that a plugin rejects is gated until an event that the plugin waits for", func(t *testing.T) {
		shut := newDoor("A", refusal)
		f := newFixture(t, preEnqueueOf(shut))
		pod := newPod("a")
		f.Add(logger, pod)
		state, _ := f.Get(pod.UID)
		f.Expect(state.Place).To(Equal(Gated))
		f.Expect(state.GatingPlugin).To(Equal("A"))
		f.Expect(state.GatingMessage).To(Equal("not yet"))
		f.event(nodeAdded)
		f.Expect(f.place(pod)).To(Equal(Gated), "the gate is still shut")
		shut.status = nil
		f.event(claimAdded)
		f.Expect(f.place(pod)).To(Equal(Gated), "B waits for claims, but it is not the gate")
		f.event(nodeAdded)
		f.Expect(f.place(pod)).To(Equal(Active))
		state, _ = f.Get(pod.UID)
		f.Expect(state.GatingMessage).To(BeEmpty())
		f.Expect(f.pop().GatingPlugin).To(BeEmpty())
	})
	t.Run("the gating plugin runs first, and none after the first rejection", func(t *testing.T) {
		first, second, third := newDoor("first", nil), newDoor("A", refusal), newDoor("third", nil)
		f := newFixture(t, preEnqueueOf(first, second, third))
		f.Add(logger, newPod("a"))
		f.Expect([]int{first.calls, second.calls, third.calls}).To(Equal([]int{1, 1, 0}))
		f.event(nodeAdded)
		f.Expect([]int{first.calls, second.calls, third.calls}).To(Equal([]int{1, 2, 0}))
		second.status, third.status = nil, refusal
		f.event(nodeAdded)
		f.Expect([]int{first.calls, second.calls, third.calls}).To(Equal([]int{2, 3, 1}))
		f.Expect(f.PendingPods()[0].GatingPlugin).To(Equal("third"))
		f.Expect(f.PendingPods()[0].UnschedulablePlugins).To(Equal([]string{"A", "third"}))
	})
	t.Run("a plugin that ungates its pods does not run again after each event", func(t *testing.T) {
		shut := &ungater{door: newDoor("A", refusal)}
		f := newFixture(t, preEnqueueOf(shut))
		pod := newPod("a")
		f.Add(logger, pod)
		for range 3 {
			f.event(nodeAdded)
		}
		f.Expect(f.place(pod)).To(Equal(Gated))
		f.Expect(shut.calls).To(Equal(1))
		shut.status = nil
		f.Ungate(logger, pod.UID, "A")
		f.Expect(f.place(pod)).To(Equal(Active))
	})
	t.Run("what events call for meanwhile is not lost", func(t *testing.T) {
		open := &ungater{door: newDoor("A", nil)}
		f := newFixture(t, preEnqueueOf(open))
		f.Add(logger, newPod("a"))
		popped := f.pop()
		open.status = refusal
		pod := f.giveBack(popped, nil, []string{"A"})
		f.event(fwk.ClusterEvent{Resource: fwk.WildCard, ActionType: fwk.All}) // retried after its back-off
		f.Expect(f.place(pod)).To(Equal(Gated))
		f.event(nodeAdded) // A had it pending: retried at once
		open.status = nil
		f.Ungate(logger, pod.UID, "A")
		f.Expect(f.place(pod)).To(Equal(Active))
	})
	t.Run("an event may show that it has no reason any more", func(t *testing.T) {
		shut := &ungater{door: newDoor("A", refusal)}
		f := newFixture(t, preEnqueueOf(shut))
		pod := newPod("a")
		f.Add(logger, pod)
		shut.status = nil
		f.event(nodeAdded)
		f.Expect(f.place(pod)).To(Equal(Active))
		f.Expect(shut.calls).To(Equal(2))
	})
	t.Run("a pod may be gated on its way to Backoff, but not when it leaves Backoff", func(t *testing.T) {
		shut := newDoor("G", nil)
		f := newFixture(t, preEnqueueOf(shut),
			func(p *ProfileSettings) { p.Hints[nodeAdded] = append(p.Hints[nodeAdded], Hint{Plugin: "G"}) })
		f.Add(logger, newPod("a"))
		pod := f.reject("A")
		shut.status = refusal
		f.event(nodeAdded)
		f.Expect(f.place(pod)).To(Equal(Gated))
		shut.status = nil
		f.event(nodeAdded)
		f.Expect(f.place(pod)).To(Equal(Backoff))
		shut.status = refusal
		f.step(3 * time.Second)
		f.Expect(f.place(pod)).To(Equal(Active))
	})
	t.Run("the gate of an asynchronous preemption opens with the event of its last victim", func(t *testing.T) {
		// DefaultPreemption gates a preemptor while its victims are being deleted. Its hint returns
		// Skip, since the plugins that rejected the pod have the hints that matter.
		victimDeleted := fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete}
		preempting := newDoor("DefaultPreemption", nil)
		f := newFixture(t, preEnqueueOf(preempting), func(p *ProfileSettings) {
			p.Hints = HintMap{victimDeleted: {hintOf("DefaultPreemption", fwk.QueueSkip, nil),
				{Plugin: "NodeResourcesFit"}}}
		})
		f.Add(logger, newPod("preemptor"))
		p := f.pop()
		preempting.status = refusal
		pod := f.giveBack(p, []string{"NodeResourcesFit"}, nil)
		f.event(victimDeleted)
		f.Expect(f.place(pod)).To(Equal(Gated), "one victim is left")
		preempting.status = nil
		f.event(victimDeleted)
		f.Expect(f.place(pod)).To(Equal(Backoff))
	})
	t.Run("removing the last scheduling gate queues the pod", func(t *testing.T) {
		plugin, err := schedulinggates.New(context.Background(), nil, nil, feature.Features{})
		if err != nil {
			t.Fatal(err)
		}
		f := newFixture(t, preEnqueueOf(plugin.(fwk.PreEnqueuePlugin)), func(p *ProfileSettings) {
			events, err := plugin.(fwk.EnqueueExtensions).EventsToRegister(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events {
				p.Hints[e.Event] = append(p.Hints[e.Event], Hint{Plugin: plugin.Name(), Fn: e.QueueingHintFn})
			}
		})
		two := newPod("a", gates("x", "y"), nominated("n"))
		f.Add(logger, two)
		f.Expect(f.place(two)).To(Equal(Gated))
		one := objects.Edited(two, gates("x"))
		f.Update(logger, two, one)
		f.Expect(f.place(two)).To(Equal(Gated))
		f.Update(logger, one, objects.Edited(one, gates()))
		f.Expect(f.place(two)).To(Equal(Active))
		f.Expect(f.Nominator().NominatedPodsForNode("n")).To(HaveLen(1))
	})
}

func TestPreEnqueueErrors(t *testing.T) {
	sorry := fwk.AsStatus(errors.New("sorry"))
	t.Run("a plugin that fails is retried after a growing back-off", func(t *testing.T) {
		broken := newDoor("A", sorry)
		f := newFixture(t, preEnqueueOf(broken))
		pod := newPod("a")
		f.Add(logger, pod)
		for i := 1; i <= 3; i++ {
			state, _ := f.Get(pod.UID)
			f.Expect(state.Place).To(Equal(ErrorBackoff))
			f.Expect(state.Error).To(Equal("A: sorry"))
			f.Expect(state.BackoffEnd).To(Equal(f.clock.Now().Add(time.Second << (i - 1))))
			f.Expect(broken.calls).To(Equal(i))
			f.step(state.BackoffEnd.Sub(f.clock.Now()))
			f.Expect(broken.calls).To(Equal(i), "the window is not over")
			f.step(time.Second)
		}
		broken.status = nil
		f.step(time.Minute)
		p := f.pop()
		f.Expect(p.ConsecutiveErrorsCount).To(BeZero(), "the pod itself has met no error")
		f.Expect(p.UnschedulablePlugins).To(BeEmpty())
	})
	t.Run("a pod that was rejected before keeps its reasons, and may be gated by the plugin that failed",
		func(t *testing.T) {
			broken := newDoor("G", nil)
			f := newFixture(t, preEnqueueOf(broken))
			f.Add(logger, newPod("a"))
			pod := f.reject("A")
			broken.status = sorry
			f.event(nodeAdded)
			f.Expect(f.place(pod)).To(Equal(ErrorBackoff))
			broken.status = refusal
			f.step(time.Minute)
			state, _ := f.Get(pod.UID)
			f.Expect(state.Place).To(Equal(Gated))
			f.Expect(state.Error).To(BeEmpty())
			f.Expect(state.UnschedulablePlugins).To(Equal([]string{"A", "G"}))
		})
	t.Run("a plugin that always fails costs one call per window even without back-off", func(t *testing.T) {
		broken := newDoor("A", sorry)
		f := newFixture(t, preEnqueueOf(broken), func(p *ProfileSettings) { p.MaxBackoff = 0 })
		f.Add(logger, newPod("a"))
		f.step(0)
		f.Expect(broken.calls).To(Equal(1))
		f.step(time.Second)
		f.Expect(broken.calls).To(Equal(2))
	})
	t.Run("a plugin that panics fails, and is named in the log once, with its stack", func(t *testing.T) {
		log := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(2)))
		text := log.GetSink().(ktesting.Underlier).GetBuffer()
		bad := &preEnqueuer{name: "Bad", answer: func(*corev1.Pod) *fwk.Status { panic("sorry") }}
		f := newFixture(t, preEnqueueOf(bad))
		pod := newPod("a")
		f.Add(log, pod)
		state, _ := f.Get(pod.UID)
		f.Expect(state.Place).To(Equal(ErrorBackoff))
		f.Expect(state.Error).To(Equal("Bad: panic: sorry"))
		f.Expect(text.String()).To(And(ContainSubstring(`plugin="Bad"`), ContainSubstring("TestPreEnqueueErrors")))
		logged := len(text.Data())
		f.clock.Step(time.Minute)
		f.flushBackoff(log)
		f.Expect(bad.calls).To(Equal(2))
		f.Expect(text.Data()).To(HaveLen(logged), "retries repeat nothing")
	})
	t.Run("plugins log through the caller's logger", func(t *testing.T) {
		log := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
		f := newFixture(t, preEnqueueOf(talker{}))
		f.Add(log, newPod("a"))
		f.Expect(log.GetSink().(ktesting.Underlier).GetBuffer().String()).To(ContainSubstring("hello"))
	})
}

// talker is a PreEnqueue plugin that logs.
type talker struct{}

func (talker) Name() string { return "talker" }
func (talker) PreEnqueue(ctx context.Context, _ *corev1.Pod) *fwk.Status {
	klog.FromContext(ctx).Info("hello")
	return nil
}

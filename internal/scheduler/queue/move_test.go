// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/test/objects"
)

func hintOf(plugin string, result fwk.QueueingHint, err error) Hint {
	return Hint{Plugin: plugin, Fn: func(klog.Logger, *corev1.Pod, any, any) (fwk.QueueingHint, error) {
		return result,
			err
	}}
}

func TestHints(t *testing.T) {
	panics := func(plugin string) Hint {
		return Hint{Plugin: plugin,
			Fn: func(klog.Logger, *corev1.Pod, any, any) (fwk.QueueingHint, error) { panic("sorry") }}
	}
	tests := []struct {
		name                   string
		unschedulable, pending []string
		hints                  HintMap
		event                  fwk.ClusterEvent
		nominated              string // for a node
		oldObj, newObj         any
		want                   Place
	}{
		{
			name:          "a plugin without a hint function is always helped by its events",
			unschedulable: []string{"A"},
			hints:         HintMap{nodeAdded: {{Plugin: "A"}}},
			event:         nodeAdded,
			want:          Backoff,
		},
		{
			name:          "a hint that says Skip leaves the pod",
			unschedulable: []string{"A"},
			hints:         HintMap{nodeAdded: {hintOf("A", fwk.QueueSkip, nil)}},
			event:         nodeAdded,
			want:          Unschedulable,
		},
		{
			name:          "one hint that says Queue is enough",
			unschedulable: []string{"A", "B"},
			hints:         HintMap{nodeAdded: {hintOf("A", fwk.QueueSkip, nil), hintOf("B", fwk.Queue, nil)}},
			event:         nodeAdded,
			want:          Backoff,
		},
		{
			name:          "plugins that did not reject the pod are not called",
			unschedulable: []string{"A"},
			hints:         HintMap{nodeAdded: {panics("B"), hintOf("A", fwk.QueueSkip, nil)}},
			event:         nodeAdded,
			want:          Unschedulable,
		},
		{
			name:          "an error counts as Queue, whatever the hint says",
			unschedulable: []string{"A"},
			hints:         HintMap{nodeAdded: {hintOf("A", fwk.QueueSkip, errors.New("sorry"))}},
			event:         nodeAdded,
			want:          Backoff,
		},
		{
			name:          "a panic counts as Queue",
			unschedulable: []string{"A"},
			hints:         HintMap{nodeAdded: {panics("A")}},
			event:         nodeAdded,
			want:          Backoff,
		},
		{
			name:    "a pending plugin that says Queue makes the pod active",
			pending: []string{"A"},
			hints:   HintMap{nodeAdded: {hintOf("A", fwk.Queue, nil)}},
			event:   nodeAdded,
			want:    Active,
		},
		{
			name:          "a pending plugin is called even after another returned Queue",
			unschedulable: []string{"A"},
			pending:       []string{"B"},
			hints:         HintMap{nodeAdded: {hintOf("A", fwk.Queue, nil), hintOf("B", fwk.Queue, nil)}},
			event:         nodeAdded,
			want:          Active,
		},
		{
			name:          "a pending plugin that says Skip does not stop another",
			unschedulable: []string{"B"},
			pending:       []string{"A"},
			hints:         HintMap{nodeAdded: {hintOf("A", fwk.QueueSkip, nil), hintOf("B", fwk.Queue, nil)}},
			event:         nodeAdded,
			want:          Backoff,
		},
		{
			name:          "an event of another kind does not reach the hint",
			unschedulable: []string{"A"},
			hints:         HintMap{nodeAdded: {{Plugin: "A"}}, claimAdded: {{Plugin: "B"}}},
			event:         claimAdded,
			want:          Unschedulable,
		},
		{
			name:          "a registration for several actions matches each of them",
			unschedulable: []string{"A"},
			hints:         HintMap{{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel}: {{Plugin: "A"}}},
			event:         fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeLabel},
			want:          Backoff,
		},
		{
			name:          "a registration for everything matches everything",
			unschedulable: []string{"A"},
			hints:         HintMap{{Resource: fwk.WildCard, ActionType: fwk.All}: {{Plugin: "A"}}},
			event:         claimAdded,
			want:          Backoff,
		},
		{
			name:          "a registration for pods includes assigned pods",
			unschedulable: []string{"A"},
			hints:         HintMap{{Resource: fwk.Pod, ActionType: fwk.Delete}: {{Plugin: "A"}}},
			event:         schedframework.EventAssignedPodDelete,
			want:          Backoff,
		},
		{
			name:          "a pod left the node that this one is nominated for",
			unschedulable: []string{"A"},
			hints:         HintMap{schedframework.EventAssignedPodDelete: {hintOf("A", fwk.QueueSkip, nil)}},
			event:         schedframework.EventAssignedPodDelete,
			nominated:     "n",
			oldObj:        newPod("b", onNode("n")),
			want:          Backoff,
		},
		{
			name:          "a pod left another node",
			unschedulable: []string{"A"},
			hints:         HintMap{schedframework.EventAssignedPodDelete: {hintOf("A", fwk.QueueSkip, nil)}},
			event:         schedframework.EventAssignedPodDelete,
			nominated:     "n",
			oldObj:        newPod("b", onNode("other")),
			want:          Unschedulable,
		},
		{
			name:          "a pod came to the node that this one is nominated for",
			unschedulable: []string{"A"},
			hints:         HintMap{schedframework.EventAssignedPodAdd: {hintOf("A", fwk.QueueSkip, nil)}},
			event:         schedframework.EventAssignedPodAdd,
			nominated:     "n",
			newObj:        newPod("b", onNode("n")),
			want:          Unschedulable,
		},
		{
			name:          "a wildcard event needs no hint",
			unschedulable: []string{"A"},
			event:         fwk.ClusterEvent{Resource: fwk.WildCard, ActionType: fwk.All},
			want:          Backoff,
		},
		{
			name:          "a wildcard event for a pod affects that pod",
			unschedulable: []string{"A"},
			event:         schedframework.EventForceActivate,
			newObj:        newPod("a"),
			want:          Backoff,
		},
		{
			name:          "a wildcard event for another pod does not",
			unschedulable: []string{"A"},
			event:         schedframework.EventForceActivate,
			newObj:        newPod("b"),
			want:          Unschedulable,
		},
		{
			name:          "a wildcard event for another kind affects no pod",
			unschedulable: []string{"A"},
			event:         schedframework.EventForceActivate,
			newObj:        &corev1.Node{},
			want:          Unschedulable,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, func(p *ProfileSettings) { p.Hints = tt.hints })
			pod := newPod("a", nominated(tt.nominated))

			f.Add(logger, pod)
			f.giveBack(f.pop(), tt.unschedulable, tt.pending)
			f.Move(logger, tt.event, tt.oldObj, tt.newObj, nil)
			f.Expect(f.place(pod)).To(Equal(tt.want), "waiting")

			f.Delete(logger, pod)
			f.Add(logger, pod)
			p := f.pop()
			f.Move(logger, tt.event, tt.oldObj, tt.newObj, nil)
			f.giveBack(p, tt.unschedulable, tt.pending)
			f.Expect(f.place(pod)).To(Equal(tt.want), "in flight")
		})
	}
	t.Run("hints receive the pod and the objects of the event", func(t *testing.T) {
		pod, oldObj, newObj := newPod("a"), &corev1.Node{}, &corev1.Node{}
		calls := 0
		f := newFixture(t, func(p *ProfileSettings) {
			p.Hints = HintMap{
				nodeAdded: {{Plugin: "A", Fn: func(_ klog.Logger, p *corev1.Pod, o, n any) (fwk.QueueingHint, error) {
					calls++
					if p != pod || o != oldObj || n != newObj {
						t.Errorf("the hint got %v, %v, %v", p, o, n)
					}
					return fwk.QueueSkip, nil
				}}}}
		})
		f.Add(logger, pod)
		p := f.pop()
		f.Move(logger, nodeAdded, oldObj, newObj, nil)
		f.giveBack(p, []string{"A"}, nil)
		f.Move(logger, nodeAdded, oldObj, newObj, nil)
		f.Expect(calls).To(Equal(2))
	})
	t.Run("a plugin that panics or fails is logged once until the next reload", func(t *testing.T) {
		log := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(2)))
		text := log.GetSink().(ktesting.Underlier).GetBuffer()
		f := newFixture(t, func(p *ProfileSettings) {
			p.Hints = HintMap{nodeAdded: {panics("Bad"), hintOf("Worse", 0, errors.New("sorry"))}}
		})
		for _, name := range []string{"a", "b", "c"} {
			f.Add(logger, newPod(name))
			f.giveBack(f.pop(), []string{"Bad"}, nil)
			f.Add(logger, newPod(name+"2"))
			f.giveBack(f.pop(), []string{"Worse"}, nil)
		}
		f.Move(log, nodeAdded, nil, &corev1.Node{}, nil)
		f.Expect(text.String()).To(And(ContainSubstring(`plugin="Bad"`), ContainSubstring("TestHints")),
			"with the stack")
		f.Expect(text.Data()).To(HaveLen(2))
		f.Expect(f.Counts().Backoff).To(Equal(6))
	})
}

func TestMove(t *testing.T) {
	t.Run("a pod whose back-off is over becomes active immediately", func(t *testing.T) {
		f := newFixture(t)
		f.Add(logger, newPod("a"))
		pod := f.reject("A")
		f.step(3 * time.Second)
		f.event(nodeAdded)
		f.Expect(f.place(pod)).To(Equal(Active))
	})
	t.Run("only pods that pass the precheck are checked, but the event is kept for those in flight",
		func(t *testing.T) {
			f := newFixture(t)
			pods := map[string]*corev1.Pod{}
			for _, name := range []string{"a", "b", "c"} {
				pods[name] = newPod(name)
				f.Add(logger, pods[name])
			}
			var inFlight *schedframework.QueuedPodInfo
			for range 3 {
				if p := f.pop(); p.Pod.Name == "c" {
					inFlight = p
				} else {
					f.giveBack(p, []string{"A"}, nil)
				}
			}
			f.Move(logger, nodeAdded, nil, nil, func(pod *corev1.Pod) bool { return pod.Name == "a" })
			f.giveBack(inFlight, []string{"A"}, nil)
			f.Expect(f.place(pods["a"])).To(Equal(Backoff))
			f.Expect(f.place(pods["b"])).To(Equal(Unschedulable))
			f.Expect(f.place(pods["c"])).To(Equal(Backoff))
		})
	t.Run("an event that interests no plugin is not kept", func(t *testing.T) {
		f := newFixture(t)
		f.Add(logger, newPod("a"))
		f.pop()
		f.event(classAdded)
		f.Expect(f.Counts().InFlightEvents).To(BeZero())
		f.event(claimAdded)
		f.Expect(f.Counts().InFlightEvents).To(Equal(1))
	})
	t.Run("assigned pods are events as well", func(t *testing.T) {
		f := newFixture(t, func(p *ProfileSettings) {
			p.Hints = HintMap{
				{Resource: fwk.Pod, ActionType: fwk.Add}:            {{Plugin: "Added"}},
				{Resource: fwk.Pod, ActionType: fwk.UpdatePodLabel}: {{Plugin: "Labelled"}},
			}
		})
		f.Add(logger, newPod("a"))
		a := f.reject("Added")
		f.Move(logger, schedframework.EventAssignedPodAdd, nil, newPod("other", onNode("n")), nil)
		f.Expect(f.place(a)).To(Equal(Backoff))
		f.pop()
		f.Add(logger, newPod("b"))
		b := f.reject("Labelled")
		other := newPod("other", onNode("n"))
		for _, event := range schedframework.PodSchedulingPropertiesChange(objects.Edited(other, label("x", "y")),
			other, false) {
			f.Move(logger, event, other, objects.Edited(other, label("x", "y")), nil)
		}
		f.Expect(f.place(b)).To(Equal(Backoff))
	})
	t.Run("one profile's hints do not move another's pods", func(t *testing.T) {
		f := newFixture(t)
		f.settings.Profiles["second"] = profileOf(func(p *ProfileSettings) {
			p.Hints = HintMap{claimAdded: {{Plugin: "A"}}}
		})
		f.Reconfigure(logger, f.settings, nil)
		f.Add(logger, newPod("a"))
		a := f.reject("A")
		f.Add(logger, newPod("b", scheduler("second")))
		b := f.reject("A")
		f.event(claimAdded)
		f.Expect(f.place(a)).To(Equal(Unschedulable))
		f.Expect(f.place(b)).To(Equal(Backoff))
	})
}

func TestActivate(t *testing.T) {
	all := func(pods ...*corev1.Pod) map[string]*corev1.Pod {
		m := map[string]*corev1.Pod{}
		for _, pod := range pods {
			m[pod.Name] = pod
		}
		return m
	}
	t.Run("waiting pods become active immediately, wherever they wait", func(t *testing.T) {
		f := newFixture(t)
		f.Add(logger, newPod("error"))
		f1 := f.reject()
		f.Add(logger, newPod("unschedulable"))
		f2 := f.reject("B")
		f.Add(logger, newPod("backoff"))
		f3 := f.reject("A")
		f.event(nodeAdded)
		f.Expect(f.Counts()).To(Equal(Counts{Backoff: 1, ErrorBackoff: 1, Unschedulable: 1}))
		f.Activate(logger, all(f1, f2, f3, newPod("unknown")))
		f.Expect(f.Counts()).To(Equal(Counts{Active: 3}))
	})
	t.Run("a gated pod is active only if its gate is open", func(t *testing.T) {
		shut := newDoor("G", refusal)
		f := newFixture(t, preEnqueueOf(shut))
		pod := newPod("a")
		f.Add(logger, pod)
		f.Activate(logger, all(pod))
		f.Expect(f.place(pod)).To(Equal(Gated))
		shut.status = nil
		f.Activate(logger, all(pod))
		f.Expect(f.place(pod)).To(Equal(Active))
	})
	t.Run("PreEnqueue is not run again for pods that passed it", func(t *testing.T) {
		open := newDoor("G", nil)
		f := newFixture(t, preEnqueueOf(open))
		f.Add(logger, newPod("a"))
		pod := f.reject("A")
		f.event(nodeAdded)
		calls := open.calls
		f.Activate(logger, all(pod))
		f.Expect(f.place(pod)).To(Equal(Active))
		f.Expect(open.calls).To(Equal(calls))
	})
	t.Run("it is run for pods that are there because it failed", func(t *testing.T) {
		broken := newDoor("G", fwk.AsStatus(errors.New("sorry")))
		f := newFixture(t, preEnqueueOf(broken))
		pod := newPod("a")
		f.Add(logger, pod)
		f.Activate(logger, all(pod))
		f.Expect(f.place(pod)).To(Equal(ErrorBackoff))
		broken.status = nil
		f.Activate(logger, all(pod))
		f.Expect(f.place(pod)).To(Equal(Active))
	})
}

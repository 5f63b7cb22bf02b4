// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/test/objects"
)

// with are settings with the given profile in place of "default", and the others as they were.
func (f *fixture) with(p *ProfileSettings) *Settings {
	s := &Settings{Less: f.settings.Less, Profiles: map[string]*ProfileSettings{}}
	for name, old := range f.settings.Profiles {
		s.Profiles[name] = old
	}
	s.Profiles["default"] = p
	return s
}

func TestReconfigure(t *testing.T) {
	defaults := sets.New("default")
	t.Run("waiting pods of a changed profile become active immediately, wherever they wait", func(t *testing.T) {
		f := newFixture(t)
		f.Add(logger, newPod("error"))
		f.reject()
		f.Add(logger, newPod("unschedulable"))
		f.reject("B")
		f.Add(logger, newPod("backoff"))
		f.reject("A")
		f.event(nodeAdded)
		f.Add(logger, newPod("active"))
		f.Expect(f.Reconfigure(logger, f.with(profileOf()), defaults)).To(BeEmpty())
		f.Expect(f.Counts()).To(Equal(Counts{Active: 4}))
		for range 4 {
			p := f.pop()
			f.Expect(p.UnschedulablePlugins).
				To(BeEmpty(), "what the plugins of the replaced profile said means nothing")
		}
	})
	t.Run("pods of other profiles stay as they are", func(t *testing.T) {
		shut := newDoor("G", refusal)
		f := newFixture(t)
		f.settings.Profiles["other"] = profileOf(preEnqueueOf(shut))
		f.Reconfigure(logger, f.settings, nil)
		gated := newPod("gated", scheduler("other"))
		f.Add(logger, gated)
		shut.status = nil
		f.Add(logger, newPod("refused", scheduler("other")))
		refused := f.reject("A")
		f.Add(logger, newPod("flying", scheduler("other")))
		flying := f.pop()
		f.Reconfigure(logger, f.with(profileOf()), defaults)
		f.giveBack(flying, []string{"A"}, nil)
		f.Expect(f.place(gated)).To(Equal(Gated))
		f.Expect(f.place(refused)).To(Equal(Unschedulable))
		f.Expect(f.place(flying.Pod)).To(Equal(Unschedulable))
	})
	t.Run("a gated pod is queued when its gating plugin is removed", func(t *testing.T) {
		f := newFixture(t, preEnqueueOf(newDoor("G", refusal)))
		pod := newPod("a", nominated("n"))
		f.Add(logger, pod)
		f.Expect(f.place(pod)).To(Equal(Gated))
		f.Reconfigure(logger, f.with(profileOf()), defaults)
		state, _ := f.Get(pod.UID)
		f.Expect(state.Place).To(Equal(Active))
		f.Expect(state.GatingPlugin).To(BeEmpty())
		f.Expect(f.Nominator().NominatedPodsForNode("n")).To(HaveLen(1))
	})
	t.Run("a gated pod gets the events of its gate in the new profile", func(t *testing.T) {
		shut := newDoor("G", refusal)
		f := newFixture(t, preEnqueueOf(shut))
		pod := newPod("a")
		f.Add(logger, pod)
		f.Reconfigure(logger, f.with(profileOf(preEnqueueOf(shut),
			func(p *ProfileSettings) { p.Hints[classAdded] = []Hint{{Plugin: "G"}} })), defaults)
		f.Expect(f.place(pod)).To(Equal(Gated))
		shut.status = nil
		f.event(classAdded)
		f.Expect(f.place(pod)).To(Equal(Active))
	})
	t.Run("a new plugin gates pods that are active already", func(t *testing.T) {
		f := newFixture(t)
		pod := newPod("a")
		f.Add(logger, pod)
		f.Reconfigure(logger, f.with(profileOf(preEnqueueOf(newDoor("G", refusal)))), defaults)
		state, _ := f.Get(pod.UID)
		f.Expect(state.Place).To(Equal(Gated))
		f.Expect(state.UnschedulablePlugins).To(Equal([]string{"G"}))
		f.Expect(f.Counts()).To(Equal(Counts{Gated: 1}))
	})
	t.Run("a new plugin that fails keeps active pods out until it works", func(t *testing.T) {
		broken := newDoor("G", fwk.AsStatus(errors.New("sorry")))
		f := newFixture(t)
		pod := newPod("a")
		f.Add(logger, pod)
		f.Reconfigure(logger, f.with(profileOf(preEnqueueOf(broken))), defaults)
		f.Expect(f.place(pod)).To(Equal(ErrorBackoff))
		broken.status = nil
		f.Reconfigure(logger, f.with(profileOf(preEnqueueOf(broken))), defaults)
		f.Expect(f.place(pod)).To(Equal(Active), "the reload does not wait for the back-off")
	})
	t.Run("no pod waits for a rejecting plugin that is removed", func(t *testing.T) {
		f := newFixture(t)
		f.Add(logger, newPod("a"))
		pod := f.reject("A")
		f.Reconfigure(logger, f.with(profileOf(func(p *ProfileSettings) { p.Hints = nil })), defaults)
		f.Expect(f.place(pod)).To(Equal(Active))
	})
	t.Run("a pod in flight is retried immediately when it comes back", func(t *testing.T) {
		for name, rejectors := range map[string][]string{"refused": {"A"}, "error": nil} {
			t.Run(name, func(t *testing.T) {
				f := newFixture(t)
				f.Add(logger, newPod("a"))
				p := f.pop()
				f.event(nodeAdded)
				f.Reconfigure(logger, f.with(profileOf()), defaults)
				f.event(nodeAdded)
				f.giveBack(p, rejectors, nil)
				f.Expect(f.place(p.Pod)).To(Equal(Active))
				f.Expect(f.place(f.reject("A"))).To(Equal(Unschedulable), "once")
			})
		}
	})
	t.Run("a new profile takes back its pods in flight even if it is not marked as changed", func(t *testing.T) {
		f := newFixture(t)
		pod := newPod("a")
		f.Add(logger, pod)
		p := f.pop()
		f.Reconfigure(logger, &Settings{}, nil)
		f.Reconfigure(logger, f.settings, nil)
		f.Add(logger, pod)
		f.giveBack(p, []string{"A"}, nil)
		f.Expect(f.place(pod)).To(Equal(Active))
	})
	t.Run("pods of a removed profile leave queue and nominator and are returned, those in flight aside",
		func(t *testing.T) {
			shut := newDoor("G", refusal)
			f := newFixture(t, preEnqueueOf(shut))
			f.settings.Profiles["other"] = profileOf()
			f.Reconfigure(logger, f.settings, nil)
			stays := newPod("stays", scheduler("other"), nominated("n"))
			f.Add(logger, stays)
			f.Add(logger, newPod("gated"))
			shut.status = nil
			flying := newPod("flying", nominated("n"), priority(9))
			f.Add(logger, flying)
			p := f.popOf(flying)
			for name, rejectors := range map[string][]string{"unschedulable": {"B"}, "backoff": {"A"}, "error": nil} {
				f.Add(logger, newPod(name, nominated("n"), priority(9)))
				f.reject(rejectors...)
				if name == "backoff" {
					f.event(nodeAdded)
				}
			}
			f.Add(logger, newPod("active", nominated("n")))
			f.Expect(f.Nominator().NominatedPodsForNode("n")).To(HaveLen(6))
			f.Expect(f.Counts()).
				To(Equal(Counts{Active: 2, Backoff: 1, ErrorBackoff: 1, Unschedulable: 1, Gated: 1, InFlight: 1,
					InFlightEvents: f.Counts().InFlightEvents}))

			delete(f.settings.Profiles, "default")
			var dropped []string
			for _, pod := range f.Reconfigure(logger, f.settings, defaults) {
				dropped = append(dropped, pod.Name)
			}
			f.Expect(dropped).To(Equal([]string{"active", "backoff", "error", "gated", "unschedulable"}))
			f.Expect(f.Counts().InFlight).To(Equal(1))
			f.Expect(f.Counts().Active).To(Equal(1))
			f.Expect(f.Nominator().NominatedPodsForNode("n")).To(HaveLen(1))
			f.Nominator().AddNominatedPod(logger, p.PodInfo, nominate("n"))
			f.Expect(f.Nominator().NominatedPodsForNode("n")).To(HaveLen(1), "nobody is there to clear it")
			f.Done(flying.UID)
			f.Expect(f.Counts()).To(Equal(Counts{Active: 1}))
		})
	t.Run("the nominations of a removed profile no longer reserve room", func(t *testing.T) {
		var asked []*corev1.Pod
		hint := Hint{Plugin: "A", Fn: func(_ klog.Logger, _ *corev1.Pod, oldObj, _ any) (fwk.QueueingHint, error) {
			asked = append(asked, oldObj.(*corev1.Pod))
			return fwk.Queue, nil
		}}
		f := newFixture(t, func(p *ProfileSettings) {
			p.Hints = HintMap{schedframework.EventAssignedPodDelete: {hint}}
		})
		f.settings.Profiles["other"] = profileOf()
		f.Reconfigure(logger, f.settings, nil)
		var low, equal, high *corev1.Pod
		for pod, p := range map[**corev1.Pod]int32{&low: 0, &equal: 5, &high: 6} {
			*pod = newPod(fmt.Sprint("p", p), priority(p))
			f.Add(logger, *pod)
			f.reject("A")
		}
		flying := newPod("flying")
		f.Add(logger, flying)
		p := f.pop()
		preemptor := newPod("preemptor", scheduler("other"), priority(5))
		f.Add(logger, preemptor)
		f.Nominator().AddNominatedPod(logger, info(preemptor), nominate("n"))

		delete(f.settings.Profiles, "other")
		f.Reconfigure(logger, f.settings, sets.New("other"))
		f.Expect(f.Nominator().NominatedPodsForNode("n")).To(BeEmpty())
		f.Expect([]Place{f.place(low), f.place(equal), f.place(high)}).
			To(Equal([]Place{Backoff, Backoff, Unschedulable}))
		f.Expect(asked).To(HaveLen(2))
		f.Expect(asked[0].Status.NominatedNodeName).To(Equal("n"), "hints look there for the node")
		f.Expect(preemptor.Status.NominatedNodeName).To(BeEmpty(), "the informers' object is not written to")
		f.giveBack(p, []string{"A"}, nil)
		f.Expect(f.place(flying)).To(Equal(Backoff))
	})
	t.Run("a new queue sort re-orders what is queued", func(t *testing.T) {
		f := newFixture(t)
		names := []string{"c", "a", "d", "b"}
		for _, name := range names {
			f.Add(logger, newPod(name))
			f.clock.Step(time.Millisecond)
		}
		for _, name := range names {
			f.Add(logger, newPod("backoff-"+name, priority(1)))
			f.reject("A")
		}
		f.event(nodeAdded)
		f.settings.Less = func(a, b fwk.QueuedEntityInfo) bool {
			return objects.Queued(a).Name < objects.Queued(b).Name
		}
		f.Reconfigure(logger, f.settings, nil)
		for _, name := range []string{"a", "b", "c", "d", "backoff-a", "backoff-b", "backoff-c", "backoff-d"} {
			f.Expect(f.pop().Pod.Name).To(Equal(name))
		}
	})
	t.Run("new back-offs apply to the next failure of a pod", func(t *testing.T) {
		f := newFixture(t)
		f.Add(logger, newPod("a"))
		p := f.pop()
		f.Reconfigure(logger,
			f.with(profileOf(func(p *ProfileSettings) { p.InitialBackoff, p.MaxBackoff = time.Minute, time.Hour })),
			nil)
		f.giveBack(p, nil, nil)
		f.Expect(f.place(p.Pod)).To(Equal(Active), "it is tried again at once, by the new profile")
		f.giveBack(f.pop(), nil, nil)
		state, _ := f.Get(p.Pod.UID)
		f.Expect(state.BackoffEnd).To(Equal(f.clock.Now().Add(2*time.Minute)), "after its second failure")
	})
	t.Run("and to a failure before the reload if the pod is gated in between", func(t *testing.T) {
		f := newFixture(t)
		f.Add(logger, newPod("a"))
		pod := f.reject("A")
		f.event(nodeAdded)
		f.Expect(f.place(pod)).To(Equal(Backoff))
		shut := newDoor("A", refusal)
		f.Reconfigure(logger, f.with(profileOf(preEnqueueOf(shut),
			func(p *ProfileSettings) { p.InitialBackoff, p.MaxBackoff = time.Minute, time.Hour })), defaults)
		shut.status = nil
		f.event(nodeAdded)
		state, _ := f.Get(pod.UID)
		f.Expect(state.Place).To(Equal(Backoff))
		f.Expect(state.BackoffEnd).To(Equal(f.clock.Now().Add(time.Minute)))
	})
	t.Run("empty settings serve no pod", func(t *testing.T) {
		f := newFixture(t)
		f.Add(logger, newPod("a"))
		f.Expect(f.Reconfigure(logger, nil, nil)).To(HaveLen(1))
		f.Add(logger, newPod("a"))
		f.Expect(f.Counts()).To(Equal(Counts{}))
	})
}

// popOf pops one certain pod, which must be the first.
func (f *fixture) popOf(pod *corev1.Pod) *schedframework.QueuedPodInfo {
	f.t.Helper()
	p := f.pop()
	f.Expect(p.Pod.Name).To(Equal(pod.Name))
	return p
}

// heldProfile is a Holder that notes when it is acquired.
type heldProfile struct{ acquire func() }

func (h *heldProfile) Acquire() { h.acquire() }

func TestPopDuringReloads(t *testing.T) {
	t.Run("returns the settings whose plugins admitted the pod, whatever reload comes in between", func(t *testing.T) {
		f := newFixture(t)
		f.Add(logger, newPod("a"))
		f.Add(logger, newPod("b"))
		before := f.Pop(logger).Settings
		f.Expect(before).To(BeIdenticalTo(f.settings.Profiles["default"]))
		next := f.with(profileOf(preEnqueueOf(newDoor("G", nil))))
		f.Reconfigure(logger, next, sets.New("default"))
		after := f.Pop(logger).Settings
		f.Expect(after).To(BeIdenticalTo(next.Profiles["default"]))
		f.Expect(after).NotTo(BeIdenticalTo(before))
	})
	t.Run("holds the profile before a reload can replace it", func(t *testing.T) {
		var held []string
		f := newFixture(t)
		holding := func(name string) func(*ProfileSettings) {
			return func(p *ProfileSettings) {
				p.Holder = &heldProfile{func() {
					if f.mu.TryLock() {
						t.Error("the queue is not locked")
					}
					held = append(held, name)
				}}
			}
		}
		f.Reconfigure(logger, &Settings{Profiles: map[string]*ProfileSettings{
			"red": profileOf(holding("red")), "green": profileOf(holding("green")),
		}}, nil)
		f.Add(logger, newPod("a", scheduler("red"), priority(1)))
		f.Add(logger, newPod("b", scheduler("green")))
		f.pop()
		f.giveBack(f.pop(), []string{"A"}, nil)
		f.event(nodeAdded)
		f.pop()
		f.Expect(held).To(Equal([]string{"red", "green", "green"}))
		f.Close()
		f.Expect(f.Pop(logger)).To(Equal(Popped{}))
		f.Expect(held).To(HaveLen(3))
	})
	t.Run("pods that a reload admits wake a waiting Pop", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, preEnqueueOf(newDoor("G", refusal)))
			f.Add(logger, newPod("a"))
			popped := make(chan *schedframework.QueuedPodInfo, 1)
			go func() { popped <- f.next() }()
			synctest.Wait()
			f.Reconfigure(logger, f.with(profileOf()), sets.New("default"))
			f.Expect((<-popped).Pod.Name).To(Equal("a"))
		})
	})
}

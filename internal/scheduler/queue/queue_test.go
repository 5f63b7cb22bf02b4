// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1listers "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/test/objects"
)

func TestOrder(t *testing.T) {
	t.Run("pods are popped by priority, then by the time of queueing", func(t *testing.T) {
		f := newFixture(t)
		for _, pod := range []*corev1.Pod{newPod("old"), newPod("low", priority(-1)), newPod("young"),
			newPod("high", priority(7))} {
			f.Add(logger, pod)
			f.clock.Step(time.Millisecond)
		}
		for _, name := range []string{"high", "old", "young", "low"} {
			p := f.pop()
			f.Expect(p.Pod.Name).To(Equal(name))
			f.Expect(p.Attempts).To(Equal(1))
		}
	})
	t.Run("the queue sort of the settings decides", func(t *testing.T) {
		f := newFixture(t)
		f.settings.Less = func(a, b fwk.QueuedEntityInfo) bool {
			return objects.Queued(a).Name > objects.Queued(b).Name
		}
		f.Reconfigure(logger, f.settings, nil)
		for _, name := range []string{"b", "a", "d", "c"} {
			f.Add(logger, newPod(name))
		}
		for _, name := range []string{"d", "c", "b", "a"} {
			f.Expect(f.pop().Pod.Name).To(Equal(name))
		}
	})
	t.Run("an update that matters to the queue sort puts the pod in its new position", func(t *testing.T) {
		f := newFixture(t)
		f.settings.Less = func(a, b fwk.QueuedEntityInfo) bool {
			return objects.Queued(a).Labels["order"] < objects.Queued(b).Labels["order"]
		}
		f.Reconfigure(logger, f.settings, nil)
		a, b, c := newPod("a", label("order", "1")), newPod("b", label("order", "2")), newPod("c", label("order", "3"))
		for _, pod := range []*corev1.Pod{a, b, c} {
			f.Add(logger, pod)
		}
		f.Update(logger, c, objects.Edited(c, label("order", "0")))
		f.Update(logger, a, objects.Edited(a, label("order", "9")))
		for _, name := range []string{"c", "b", "a"} {
			f.Expect(f.pop().Pod.Name).To(Equal(name))
		}
	})
	t.Run("a queue sort that panics is replaced by the default order", func(t *testing.T) {
		f := newFixture(t)
		f.settings.Less = func(a, b fwk.QueuedEntityInfo) bool { panic("sorry") }
		f.Reconfigure(logger, f.settings, nil)
		f.Add(logger, newPod("low"))
		f.Add(logger, newPod("high", priority(1)))
		f.Expect(f.pop().Pod.Name).To(Equal("high"))
		f.Expect(f.pop().Pod.Name).To(Equal("low"))
	})
}

func TestPop(t *testing.T) {
	t.Run("Pop waits for a pod", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			popped := make(chan *schedframework.QueuedPodInfo, 1)
			go func() { popped <- f.next() }()
			synctest.Wait()
			f.Expect(popped).NotTo(Receive())
			f.Add(logger, newPod("a"))
			f.Expect((<-popped).Pod.Name).To(Equal("a"))
		})
	})
	t.Run("every waiting Pop gets one of the pods that an event moves", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			for _, name := range []string{"a", "b", "c"} {
				f.Add(logger, newPod(name))
				f.reject("A")
			}
			popped := make(chan *schedframework.QueuedPodInfo, 3)
			for range 3 {
				go func() { popped <- f.next() }()
			}
			synctest.Wait()
			f.event(nodeAdded) // they are backing off, and Active is empty
			synctest.Wait()
			f.Expect(popped).To(HaveLen(3))
		})
	})
	t.Run("Close wakes every Pop, and nothing is popped afterwards", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			popped := make(chan *schedframework.QueuedPodInfo, 2)
			for range 2 {
				go func() { popped <- f.next() }()
			}
			synctest.Wait()
			f.Close()
			f.Close()
			f.Expect(<-popped).To(BeNil())
			f.Expect(<-popped).To(BeNil())
			f.Add(logger, newPod("a"))
			f.Expect(f.next()).To(BeNil())
		})
	})
	t.Run("Close releases the pods in flight", func(t *testing.T) {
		f := newFixture(t)
		f.Add(logger, newPod("a"))
		p := f.pop()
		f.event(nodeAdded)
		f.Close()
		f.Expect(f.Counts()).To(Equal(Counts{}))
		f.Done(p.Pod.UID)
		f.giveBack(p, []string{"A"}, nil)
		f.Expect(f.Counts().InFlight).To(BeZero())
	})
	t.Run("a pod that backs off is popped when nothing is active, one that met an error is not", func(t *testing.T) {
		f := newFixture(t)
		f.Add(logger, newPod("refused"))
		f.reject("A")
		f.event(nodeAdded)
		f.Add(logger, newPod("error"))
		f.Expect(f.pop().Pod.Name).To(Equal("error"), "Active comes first")
		f.Add(logger, newPod("error", uid("2")))
		f.reject()
		f.Expect(f.Counts()).To(Equal(Counts{Backoff: 1, ErrorBackoff: 1, InFlight: 1}))
		f.Expect(f.pop().Pod.Name).To(Equal("refused"))
		f.Expect(f.Counts()).To(Equal(Counts{ErrorBackoff: 1, InFlight: 2}))
	})
	t.Run("Done is a no-op for pods that are not in flight", func(t *testing.T) {
		f := newFixture(t)
		pod := newPod("a")
		f.Done("nobody")
		f.Add(logger, pod)
		f.Done(pod.UID)
		f.Expect(f.place(pod)).To(Equal(Active))
	})
	t.Run("the latency of a pod is counted from its first time in Active", func(t *testing.T) {
		shut := newDoor("A", refusal)
		f := newFixture(t, preEnqueueOf(shut))
		f.Add(logger, newPod("a"))
		f.clock.Step(time.Hour)
		shut.status = nil
		f.event(nodeAdded)
		p := f.pop()
		f.Expect(*p.InitialAttemptTimestamp).To(Equal(f.clock.Now()))
		first := *p.InitialAttemptTimestamp
		f.giveBack(p, nil, nil)
		f.step(time.Minute)
		f.Expect(*f.pop().InitialAttemptTimestamp).To(Equal(first))
	})
}

func TestAdd(t *testing.T) {
	t.Run("adding a pod twice is adding it once, wherever it is", func(t *testing.T) {
		f := newFixture(t)
		pod := newPod("a")
		f.Add(logger, pod)
		f.Add(logger, pod)
		f.Expect(f.Counts()).To(Equal(Counts{Active: 1}))
		p := f.pop()
		f.Add(logger, pod)
		f.Expect(f.Counts()).To(Equal(Counts{InFlight: 1}))
		f.giveBack(p, []string{"A"}, nil)
		f.Add(logger, pod)
		f.Expect(f.Counts()).To(Equal(Counts{Unschedulable: 1}))
		f.event(nodeAdded)
		f.Add(logger, pod)
		f.Expect(f.Counts()).To(Equal(Counts{Backoff: 1}))
	})
	t.Run("pods that have no profile, are assigned or have no UID are not queued", func(t *testing.T) {
		f := newFixture(t)
		f.Add(logger, newPod("a", scheduler("other")))
		f.Update(logger, nil, newPod("a", scheduler("other")))
		f.Add(logger, newPod("b", onNode("n")))
		f.Add(logger, newPod("c", uid("")))
		f.Expect(f.PendingPods()).To(BeEmpty())
	})
	t.Run("a pod that is gone from the informers is not queued", func(t *testing.T) {
		deleted, recreated, bound, fine := newPod("deleted"), newPod("recreated"), newPod("bound"), newPod("fine")
		f := newFixtureOf(t, newStore(newPod("recreated", uid("2")), objects.Edited(bound, onNode("n")), fine).lister())
		for _, pod := range []*corev1.Pod{deleted, recreated, bound, fine} {
			f.Add(logger, pod)
		}
		f.Expect(f.Counts()).To(Equal(Counts{Active: 1}))
		f.Expect(f.place(fine)).To(Equal(Active))
	})
	t.Run("the newest version is queued", func(t *testing.T) {
		pod := newPod("a")
		newest := objects.Edited(pod, label("app", "web"))
		f := newFixtureOf(t, newStore(newest).lister())
		f.Add(logger, pod)
		f.Expect(f.pop().Pod).To(BeIdenticalTo(newest))
	})
	t.Run("a lister that fails loses no pod", func(t *testing.T) {
		f := newFixtureOf(t, failingLister{})
		pod := newPod("a")
		f.Add(logger, pod)
		f.reject("A")
		f.Expect(f.place(pod)).To(Equal(Unschedulable))
	})
}

func TestUpdate(t *testing.T) {
	t.Run("an update of a pod that is not known queues it", func(t *testing.T) {
		f := newFixture(t)
		pod := newPod("a")
		f.Update(logger, pod, objects.Edited(pod, label("x", "y")))
		f.Expect(f.place(pod)).To(Equal(Active))
		f.Update(logger, nil, objects.Edited(pod, label("x", "z")))
		f.Expect(f.pop().Pod.Labels).To(HaveKeyWithValue("x", "z"))
	})
	t.Run("an update of an assumed pod is kept for its return, and queues none that was released", func(t *testing.T) {
		labelled := fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodLabel}
		f := newFixture(t, func(p *ProfileSettings) { p.Hints = HintMap{labelled: {{Plugin: "A"}}} })
		pod := newPod("a")
		f.Add(logger, pod)
		p := f.pop()
		f.UpdateAssumed(logger, pod, objects.Edited(pod, label("k", "v")))
		f.giveBack(p, []string{"A"}, nil)
		f.Expect(f.place(pod)).To(Equal(Backoff))

		f.Done(f.pop().Pod.UID)
		f.UpdateAssumed(logger, pod, objects.Edited(pod))
		f.Expect(f.Has(pod.UID)).To(BeFalse())
	})
	t.Run("a waiting pod is the newest version of itself when it is popped", func(t *testing.T) {
		f := newFixture(t)
		pod := newPod("a")
		f.Add(logger, pod)
		f.reject("A")
		newer := objects.Edited(pod, label("x", "y"))
		f.Update(logger, pod, newer)
		f.Expect(f.place(pod)).To(Equal(Unschedulable), "the update helps nobody")
		f.event(nodeAdded)
		newest := objects.Edited(newer, label("x", "z"))
		f.Update(logger, newer, newest)
		f.Expect(f.place(pod)).To(Equal(Backoff))
		f.Expect(f.pop().Pod).To(BeIdenticalTo(newest))
	})
	t.Run("an update for which a hint returns Queue queues the pod", func(t *testing.T) {
		labelled := fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodLabel}
		f := newFixture(t, func(p *ProfileSettings) { p.Hints[labelled] = []Hint{{Plugin: "A"}} })
		pod := newPod("a")
		f.Add(logger, pod)
		f.reject("A")
		f.step(time.Minute)
		f.Update(logger, pod, objects.Edited(pod, label("x", "y")))
		f.Expect(f.place(pod)).To(Equal(Active))
	})
	t.Run("a pod leaves if its new scheduler name has no profile, and is queued anew if it has", func(t *testing.T) {
		f := newFixture(t)
		f.settings.Profiles["second"] = profileOf()
		f.Reconfigure(logger, f.settings, nil)
		pod := newPod("a")
		f.Add(logger, pod)
		f.reject("A")
		second := objects.Edited(pod, scheduler("second"))
		f.Update(logger, pod, second)
		f.Expect(f.place(pod)).To(Equal(Active))
		f.Update(logger, second, objects.Edited(pod, scheduler("other")))
		f.Expect(f.place(pod)).To(Equal(nowhere))
	})
}

func TestRecreatedPods(t *testing.T) {
	older, newer := newPod("a", uid("1")), newPod("a", uid("2"))
	t.Run("the deletion of a pod leaves its successor alone", func(t *testing.T) {
		f := newFixture(t)
		f.Add(logger, older)
		f.Add(logger, newer)
		f.Delete(logger, older)
		f.Expect(f.place(older)).To(Equal(nowhere))
		f.Expect(f.place(newer)).To(Equal(Active))
	})
	t.Run("an update from one UID to another is a deletion that was missed", func(t *testing.T) {
		for _, where := range []string{"active", "unschedulable", "in flight"} {
			t.Run(where, func(t *testing.T) {
				f := newFixture(t)
				f.Add(logger, older)
				var p *schedframework.QueuedPodInfo
				switch where {
				case "unschedulable":
					f.reject("A")
				case "in flight":
					p = f.pop()
				}
				f.Update(logger, older, newer)
				f.Expect(f.place(newer)).To(Equal(Active))
				if p != nil {
					kept, err := f.Requeue(logger, p, nil)
					f.Expect(kept).To(BeFalse())
					f.Expect(errors.Is(err, ErrGone)).To(BeTrue())
				}
				f.Expect(f.Counts()).To(Equal(Counts{Active: 1}))
			})
		}
	})
	t.Run("activating a pod does not activate its successor", func(t *testing.T) {
		f := newFixture(t)
		f.Add(logger, newer)
		f.reject("A")
		f.Activate(logger, map[string]*corev1.Pod{"ns/a": older})
		f.Expect(f.place(newer)).To(Equal(Unschedulable))
	})
}

func TestDelete(t *testing.T) {
	t.Run("a pod is forgotten from every place", func(t *testing.T) {
		shut := &preEnqueuer{name: "G", answer: func(pod *corev1.Pod) *fwk.Status {
			if len(pod.Spec.SchedulingGates) != 0 {
				return refusal
			}
			return nil
		}}
		f := newFixture(t, preEnqueueOf(shut))
		byPlace := map[Place]*corev1.Pod{}
		for _, place := range []Place{ErrorBackoff, Unschedulable, Backoff, Active, Gated} {
			byPlace[place] = newPod(place.String())
		}
		gates("x")(byPlace[Gated])
		f.Add(logger, byPlace[ErrorBackoff])
		f.reject()
		f.Add(logger, byPlace[Unschedulable])
		f.reject("B")
		f.Add(logger, byPlace[Backoff])
		f.reject("A")
		f.event(nodeAdded)
		f.Add(logger, byPlace[Active])
		f.Add(logger, byPlace[Gated])
		for place, pod := range byPlace {
			f.Expect(f.place(pod)).To(Equal(place))
			f.Delete(logger, pod)
			f.Delete(logger, pod)
			f.Expect(f.Has(pod.UID)).To(BeFalse())
		}
		f.Expect(f.Counts()).To(Equal(Counts{}))
	})
}

// failingLister is a lister that does not work.
type failingLister struct{}

func (failingLister) List(labels.Selector) ([]*corev1.Pod, error)    { return nil, errors.New("sorry") }
func (failingLister) Get(string) (*corev1.Pod, error)                { return nil, errors.New("sorry") }
func (l failingLister) Pods(string) corev1listers.PodNamespaceLister { return l }

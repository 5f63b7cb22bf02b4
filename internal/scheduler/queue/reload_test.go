// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/test/objects"
)

// notes is a PreEnqueue plugin that records the pods it was called for.
type notes struct {
	asked   []string
	refuses func(*corev1.Pod) bool
}

func (n *notes) Name() string { return "G" }

func (n *notes) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	n.asked = append(n.asked, pod.Name)
	if n.refuses != nil && n.refuses(pod) {
		return refusal
	}
	return nil
}

// reloading begins a reload of the profile "default" and stops after the critical section.
func (f *fixture) reloading(gate *notes) *reload {
	f.t.Helper()
	r := f.newReload(logger, f.with(profileOf(preEnqueueOf(gate))), sets.New("default"))
	r.replaceRules()
	return r
}

// end completes a reload.
func (f *fixture) end(r *reload) (dropped []*corev1.Pod) {
	for r.runTurn() {
	}
	return r.finish()
}

func TestCriticalSectionOfAReloadDoesNotDependOnTheNumberOfPods(t *testing.T) {
	for _, pods := range []int{10, 2000} {
		t.Run(fmt.Sprint(pods, " pods"), func(t *testing.T) {
			compared := 0
			f := newFixture(t)
			f.settings.Order = "counted"
			f.settings.Less = func(a, b fwk.QueuedEntityInfo) bool {
				compared++
				return defaultLess(a, b)
			}
			f.Reconfigure(logger, f.settings, nil)
			for i := range pods {
				f.Add(logger, newPod(fmt.Sprint("waits-", i), uid(types.UID(fmt.Sprint("w", i))), priority(1)))
				f.reject("B")
				f.Add(logger, newPod(fmt.Sprint("active-", i), uid(types.UID(fmt.Sprint("a", i)))))
			}
			compared = 0
			gate := &notes{}
			s := f.with(profileOf(preEnqueueOf(gate)))
			s.Order = "counted"
			r := f.newReload(logger, s, sets.New("default"))
			r.replaceRules()
			f.Expect(compared).To(BeZero(), "the order is the same")
			f.Expect(gate.asked).To(BeEmpty(), "pods are looked at later")
			asked := 0
			for turns := 0; r.runTurn(); turns++ {
				f.Expect(len(gate.asked)-asked).To(BeNumerically("<=", turnPods), "in one turn")
				asked = len(gate.asked)
			}
			r.finish()
			f.Expect(gate.asked).To(HaveLen(2*pods), "each pod once")

			s = f.with(profileOf())
			s.Order = "another"
			compared = 0
			r = f.newReload(logger, s, sets.New("default"))
			r.replaceRules()
			f.Expect(compared).To(BeNumerically(">", pods))
			f.end(r)
		})
	}
}

func TestPodsAreCheckedAgainByPriority(t *testing.T) {
	f := newFixture(t)
	for i, p := range []int32{1, 5, 3, 4, 2} {
		f.Add(logger, newPod(fmt.Sprint("p", p), priority(p)))
		if i%2 == 0 {
			f.reject("B")
		}
	}
	gate := &notes{}
	f.end(f.reloading(gate))
	f.Expect(gate.asked).To(Equal([]string{"p5", "p4", "p3", "p2", "p1"}))
}

func TestClosedQueueRunsNoPlugins(t *testing.T) {
	pending, reasons := gathered(t, "scheduler_pending_pods"), gathered(t, "scheduler_unschedulable_pods")
	ours := gathered(t, "livesched_pending_pods")
	gate := &notes{refuses: func(*corev1.Pod) bool { return true }}
	f := newFixture(t, preEnqueueOf(gate))
	gated := newPod("gated", priority(1))
	f.Add(logger, gated)
	gate.refuses = nil
	f.Add(logger, newPod("unschedulable"))
	f.reject("A")
	flying := newPod("flying")
	f.Add(logger, flying)
	p := f.pop()
	f.Add(logger, newPod("active"))
	r := f.reloading(gate)
	f.Close()
	gate.asked = nil

	p.UnschedulablePlugins = sets.New("A")
	f.Expect(f.Requeue(logger, p, nil)).To(BeTrue(), "its profile is not gone")
	f.event(nodeAdded)
	f.Update(logger, gated, objects.Edited(gated, label("x", "y")))
	f.Add(logger, newPod("late"))
	f.Activate(logger, map[string]*corev1.Pod{"": gated})
	f.Expect(f.end(r)).To(BeEmpty())
	f.Expect(f.Reconfigure(logger, f.with(profileOf(preEnqueueOf(gate))), sets.New("default"))).To(BeEmpty())
	f.Add(logger, newPod("too late"))

	f.Expect(gate.asked).To(BeEmpty())
	f.Expect(f.Counts()).To(Equal(Counts{}))
	f.Expect(since(t, "scheduler_pending_pods", pending)).To(BeEmpty())
	f.Expect(since(t, "scheduler_unschedulable_pods", reasons)).To(BeEmpty())
	f.Expect(since(t, "livesched_pending_pods", ours)).To(BeEmpty())
}

func TestBetweenTheStepsOfAReload(t *testing.T) {
	t.Run("a pod that is about to be popped is checked by the new profile first", func(t *testing.T) {
		f := newFixture(t)
		for _, pod := range []*corev1.Pod{newPod("first", priority(3)), newPod("second", priority(2)),
			newPod("third", priority(1))} {
			f.Add(logger, pod)
		}
		gate := &notes{refuses: func(pod *corev1.Pod) bool { return pod.Name == "first" }}
		r := f.reloading(gate)
		f.Expect(f.pop().Pod.Name).To(Equal("second"))
		f.Expect(gate.asked).To(Equal([]string{"first", "second"}))
		f.Expect(f.Counts()).To(Equal(Counts{Active: 1, Gated: 1, InFlight: 1}))
		f.Expect(f.end(r)).To(BeEmpty())
		f.Expect(gate.asked).To(Equal([]string{"first", "second", "third"}), "nobody twice")
	})
	t.Run("a pod that backs off is popped when no other pod can be popped", func(t *testing.T) {
		f := newFixture(t)
		f.Add(logger, newPod("a"))
		pod := f.reject("A")
		f.event(nodeAdded)
		f.Expect(f.place(pod)).To(Equal(Backoff))
		r := f.reloading(&notes{})
		f.Expect(f.pop().UnschedulablePlugins).
			To(BeEmpty(), "what the plugins of the replaced profile said means nothing")
		f.end(r)
		f.Expect(f.Counts()).To(Equal(Counts{InFlight: 1}))
	})
	t.Run("Pop waits if all active pods turn out to be gated", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			f.Add(logger, newPod("a"))
			r := f.reloading(&notes{refuses: func(*corev1.Pod) bool { return true }})
			popped := make(chan *schedframework.QueuedPodInfo, 1)
			go func() { popped <- f.next() }()
			synctest.Wait()
			f.Expect(popped).NotTo(Receive())
			f.end(r)
			f.Reconfigure(logger, f.with(profileOf()), sets.New("default"))
			f.Expect((<-popped).Pod.Name).To(Equal("a"))
		})
	})
	t.Run("pods of a removed profile are not popped, whatever happens to them", func(t *testing.T) {
		f := newFixture(t)
		f.settings.Profiles["other"] = profileOf()
		f.Reconfigure(logger, f.settings, nil)
		names := []string{"activated", "active", "deleted", "renamed", "unschedulable", "updated"}
		pods := map[string]*corev1.Pod{}
		for i, name := range slices.Backward(names) {
			pods[name] = newPod(name, priority(int32(i)))
			f.Add(logger, pods[name])
		}
		f.Expect(f.reject("A").Name).To(Equal("updated"))
		f.Expect(f.reject("B").Name).To(Equal("unschedulable"))
		f.Add(logger, newPod("stays", scheduler("other"), priority(-1)))

		r := f.newReload(logger,
			&Settings{Profiles: map[string]*ProfileSettings{"other": f.settings.Profiles["other"]}},
			sets.New("default"))
		r.replaceRules()
		f.Activate(logger, map[string]*corev1.Pod{"": pods["activated"]})
		f.Delete(logger, pods["deleted"])
		f.Update(logger, pods["updated"], objects.Edited(pods["updated"], label("x", "y")))
		f.Update(logger, pods["renamed"], objects.Edited(pods["renamed"], scheduler("other")))
		f.event(nodeAdded)
		f.Expect(f.pop().Pod.Name).To(Equal("renamed"), "it is another profile's now")
		f.Expect(f.pop().Pod.Name).To(Equal("stays"))
		var dropped []string
		for _, pod := range f.end(r) {
			dropped = append(dropped, pod.Name)
		}
		f.Expect(dropped).To(Equal([]string{"activated", "active", "renamed", "unschedulable", "updated"}))
		f.Expect(f.Counts()).To(Equal(Counts{InFlight: 2}))
	})
	t.Run("no other reload starts", func(t *testing.T) {
		f := newFixture(t)
		f.Add(logger, newPod("a"))
		gate := &notes{refuses: func(*corev1.Pod) bool {
			if f.reconfiguring.TryLock() {
				t.Error("another reload might begin")
			}
			return false
		}}
		f.Reconfigure(logger, f.with(profileOf(preEnqueueOf(gate))), sets.New("default"))
		f.Expect(gate.asked).To(HaveLen(1))
	})
}

func TestPodInFlightThatChangesWithoutItsProfileIsNotTreatedAsDeleted(t *testing.T) {
	for name, back := range map[string]bool{"its profile stays away": false, "its profile comes back": true} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			pod := newPod("flying")
			f.Add(logger, pod)
			p := f.pop()
			f.Reconfigure(logger, &Settings{}, nil)
			f.Update(logger, pod, objects.Edited(pod, label("x", "y")))
			if back {
				f.Reconfigure(logger, f.with(profileOf()), nil)
			}
			p.UnschedulablePlugins = sets.New("A")
			kept, err := f.Requeue(logger, p, nil)
			f.Expect(err).NotTo(HaveOccurred())
			f.Expect(kept).To(Equal(back))
		})
	}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/test/objects"
)

// newReservingWorld returns a groupWorld in which groups keep room after a minute, on a clock that
// stands still.
func newReservingWorld(t testing.TB) (*groupWorld, *clocktesting.FakeClock) {
	w, clock := newGroupWorld(t), clocktesting.NewFakeClock(time.Now())
	w.loop.Clock = clock
	w.cluster.Profile.Config.PodGroupReserveAfter = time.Minute
	return w, clock
}

// tryAgain tries the group again, and returns the names of the pods that are to be bound.
func (w *groupWorld) tryAgain() []string {
	w.retry()
	return w.end(w.schedule())
}

// fits reports whether a pod of a priority with one CPU fits somewhere.
func (w *groupWorld) fits(priority int32) bool {
	pod := objects.Pod("default", "single", "mine", "1", "1Mi")
	pod.Spec.Priority = &priority
	return w.cluster.Decide(pod).Host != ""
}

// addBusyNodes adds nodes with two CPUs, of which a pod of the group's priority uses one.
func (w *groupWorld) addBusyNodes(n int) {
	for i := range n {
		name := fmt.Sprint("n", i)
		w.addNode(name, "2", "rack", fmt.Sprint("r", i/2))
		w.addRunning("on-"+name, name, "1", 100)
	}
}

func TestAGroupKeepsRoom(t *testing.T) {
	w, clock := newReservingWorld(t)
	w.addBusyNodes(2)
	w.setMinMember(4)
	w.addMembers(4)
	w.Expect(w.schedule()).To(BeEmpty())
	w.Expect(w.nominated()).To(BeEmpty(), "it has not waited for long")
	w.Expect(w.fits(100)).To(BeTrue())

	clock.Step(70 * time.Second)
	w.Expect(w.tryAgain()).To(BeEmpty())
	w.Expect(w.nominated()).To(Equal(map[string]int{"n0": 2, "n1": 2}))
	w.Expect(w.reasons["m0"]).
		To(HaveSuffix("; room on 2 nodes is kept for them until %s",
			clock.Now().Add(time.Minute).UTC().Format(time.RFC3339)))
	w.Expect(w.fits(100)).To(BeFalse(), "the room is kept")
	w.Expect(w.fits(101)).To(BeTrue(), "a more important pod may take it")

	w.gone("on-n0")
	w.Expect(w.fits(100)).To(BeFalse(), "what becomes free is kept, too")
	w.Expect(w.tryAgain()).To(BeEmpty())
	w.Expect(w.nominated()).To(Equal(map[string]int{"n0": 2, "n1": 2}))

	clock.Step(time.Minute)
	w.Expect(w.tryAgain()).To(BeEmpty())
	w.Expect(w.nominated()).To(BeEmpty(), "it is the turn of the others")
	w.Expect(w.fits(100)).To(BeTrue())

	clock.Step(time.Minute)
	w.Expect(w.tryAgain()).To(BeEmpty())
	w.Expect(w.nominated()).To(HaveLen(2))
	w.gone("on-n1")
	w.Expect(w.tryAgain()).To(HaveLen(4))
	w.Expect(w.nominated()).To(BeEmpty())
}

// TestTheWaitOutlivesTheScheduler has a group that another replica has tried before.
func TestTheWaitOutlivesTheScheduler(t *testing.T) {
	w, clock := newReservingWorld(t)
	w.addBusyNodes(2)
	w.setMinMember(4)
	w.addMembers(4, func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			LastTransitionTime: metav1.NewTime(clock.Now().Add(-70 * time.Second)),
		}}
		pod.CreationTimestamp = metav1.NewTime(clock.Now().Add(-80 * time.Second))
		if pod.Name == "m3" { // the group was not complete before
			pod.CreationTimestamp = metav1.NewTime(clock.Now().Add(-65 * time.Second))
		}
	})
	w.Expect(w.schedule()).To(BeEmpty())
	w.Expect(w.nominated()).To(HaveLen(2))
}

// TestAGroupKeepsRoomForAllKindsOfPods has members that request the same, but may be on different
// nodes.
func TestAGroupKeepsRoomForAllKindsOfPods(t *testing.T) {
	w, clock := newReservingWorld(t)
	for i := range 2 {
		name := fmt.Sprint("n", i+1)
		w.addNode(name, "1", "only", fmt.Sprint("m", i+1)) // there is none for m0
		w.addRunning("on-"+name, name, "1", 100)
	}
	w.setMinMember(2)
	w.addMembers(3, func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"only": pod.Name} })
	w.Expect(w.schedule()).To(BeEmpty())
	clock.Step(70 * time.Second)
	w.Expect(w.tryAgain()).To(BeEmpty())
	w.Expect(w.nominated()).To(HaveLen(2))
}

func TestAGroupKeepsNoRoom(t *testing.T) {
	for name, change := range map[string]func(*groupWorld){
		"if its policy does not say so": func(w *groupWorld) { w.cluster.Profile.Config.PodGroupReserveAfter = 0 },
		"if it does not fit on empty nodes either": func(w *groupWorld) {
			w.setMinMember(5)
			w.addPod("m4", "1", withPriority(100))
		},
		"while another one does": func(w *groupWorld) { w.nominateForOther(100) },
	} {
		t.Run(name, func(t *testing.T) {
			w, clock := newReservingWorld(t)
			w.addBusyNodes(2)
			w.setMinMember(4)
			w.addMembers(4)
			change(w)
			clock.Step(time.Minute)
			w.Expect(w.schedule()).To(BeEmpty())
			clock.Step(time.Minute)
			before := w.nominated()
			w.Expect(w.tryAgain()).To(BeEmpty())
			w.Expect(w.nominated()).To(Equal(before))
			w.Expect(w.reasons["m0"]).NotTo(ContainSubstring("is kept"))
		})
	}
}

// TestGroupsTakeTurns has groups that have waited for the same time. Each must keep room in turn,
// with time for single pods in between.
func TestGroupsTakeTurns(t *testing.T) {
	w, clock := newReservingWorld(t)
	w.addBusyNodes(2)
	names := []string{"g", "h", "i"}
	for _, name := range names {
		key := podgroup.Key{Namespace: "default", Name: name}
		w.cluster.Groups.SetGroup(podgroup.Group{Key: key, MinMember: 4})
		for i := range 4 {
			w.addPod(fmt.Sprint(name, i), "1", withPriority(100), objects.MemberOf(name))
		}
	}
	kept := map[string]int{} // by group, "" if none does
	for range 80 {
		w.retry()
		for range names {
			w.Expect(w.schedule()).To(BeEmpty())
		}
		keeps := ""
		for _, n := range w.cluster.Queue.Nominator().Dump() {
			name := podgroup.KeyOf(n.Pod).Name
			w.Expect(keeps).To(Or(BeEmpty(), Equal(name)), "two groups keep room")
			keeps = name
		}
		kept[keeps]++
		clock.Step(15 * time.Second)
	}
	for _, name := range append(names, "") {
		w.Expect(kept[name]).To(BeNumerically(">=", 8), "%q: %v", name, kept)
	}
}

// TestAnErrorEndsTheTurn has a member that meets an error while its group keeps room.
func TestAnErrorEndsTheTurn(t *testing.T) {
	w, clock := newReservingWorld(t)
	w.addBusyNodes(2)
	w.setMinMember(4)
	w.addMembers(4)
	w.Expect(w.schedule()).To(BeEmpty())
	clock.Step(70 * time.Second)
	w.Expect(w.tryAgain()).To(BeEmpty())
	w.Expect(w.nominated()).To(HaveLen(2))
	w.gone("on-n0")
	w.gone("on-n1")
	w.ledger.refuse["m0"] = fwk.AsStatus(errors.New("out of ink"))
	w.Expect(w.tryAgain()).To(BeEmpty())
	w.Expect(w.nominated()).To(BeEmpty())
}

func TestAMoreImportantGroupKeepsRoom(t *testing.T) {
	w, clock := newReservingWorld(t)
	w.addBusyNodes(2)
	w.setMinMember(4)
	w.addMembers(4)
	w.Expect(w.schedule()).To(BeEmpty())
	w.nominateForOther(99)
	clock.Step(70 * time.Second)
	w.Expect(w.tryAgain()).To(BeEmpty())
	w.Expect(w.nominated()).To(Equal(map[string]int{"n0": 3, "n1": 2}))
}

// nominateForOther nominates a pod of another group for node n0.
func (w *groupWorld) nominateForOther(priority int32) {
	other := objects.Pod("default", "other", "mine", "1", "1Mi")
	other.UID, other.Spec.Priority, other.Status.NominatedNodeName = "other", &priority, "n0"
	objects.MemberOf("other")(other)
	w.Expect(w.objects.Put(other)).To(Succeed())
	info, err := schedframework.NewPodInfo(other)
	w.Expect(err).NotTo(HaveOccurred())
	w.cluster.Queue.Nominator().AddNominatedPod(logr.Discard(), info, nil)
	w.Expect(w.nominated()).To(HaveKeyWithValue("n0", 1))
}

func TestAGroupKeepsRoomInOneRack(t *testing.T) {
	w, clock := newReservingWorld(t)
	w.addBusyNodes(4)
	w.setTopology(4, podgroup.Topology{Required: "rack"})
	w.addMembers(4)
	w.Expect(w.schedule()).To(BeEmpty())
	clock.Step(70 * time.Second)
	w.Expect(w.tryAgain()).To(BeEmpty())
	w.Expect(w.nominated()).To(Equal(map[string]int{"n0": 2, "n1": 2}))
	// More room elsewhere does not draw the group away, unless all of it fits there.
	w.gone("on-n2")
	w.Expect(w.tryAgain()).To(BeEmpty())
	w.Expect(w.nominated()).To(Equal(map[string]int{"n0": 2, "n1": 2}))
	w.gone("on-n3")
	w.Expect(w.tryAgain()).To(HaveLen(4))
	w.Expect(w.nominated()).To(BeEmpty())
}

// TestRoomThatAGroupNoLongerKeepsWakesOthers has nominations that no status names yet, unless
// written is set.
func TestRoomThatAGroupNoLongerKeepsWakesOthers(t *testing.T) {
	withoutN1 := func(w *groupWorld) {
		w.Expect(w.cluster.Cache.RemoveNode(logr.Discard(), objects.NodeOf("n1"))).To(Succeed())
	}
	for name, test := range map[string]struct {
		nodes int
		// members are the CPUs that the members request.
		members []string
		happens func(*groupWorld)
		written bool
	}{
		"since it would not fit on empty nodes either": {
			nodes: 2, members: []string{"1", "1", "1", "1"}, happens: withoutN1,
		},
		"since one member would not fit on empty nodes": {
			nodes: 4, members: []string{"1", "1", "1", "2"}, happens: withoutN1,
		},
		"since one member would not fit on empty nodes, and the statuses are written": {
			nodes: 4, members: []string{"1", "1", "1", "2"}, happens: withoutN1, written: true,
		},
		"since a Reserve plugin refuses": {
			nodes: 1, members: []string{"2"},
			happens: func(w *groupWorld) {
				w.gone("on-n0")
				w.cluster.Profile.Config.PodGroupReserveAfter = 0
				w.ledger.refuse["m0"] = fwk.NewStatus(fwk.Unschedulable, "no room")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, clock := newReservingWorld(t)
			w.addBusyNodes(test.nodes)
			w.setMinMember(len(test.members))
			for i, cpu := range test.members {
				w.addPod(fmt.Sprint("m", i), cpu, withPriority(100))
			}
			w.Expect(w.schedule()).To(BeEmpty())
			clock.Step(70 * time.Second)
			w.Expect(w.tryAgain()).To(BeEmpty())
			w.Expect(w.nominated()).To(HaveLen(test.nodes))
			if test.written {
				w.writeNominations()
			}

			single := w.addPod("single", "1", withPriority(100), func(pod *corev1.Pod) { pod.Labels = nil })
			popped := w.cluster.Queue.Pop(logr.Discard())
			c := w.loop.newCycle(w.loop.Profiles.Popped(popped.Settings), popped.Pod)
			w.Expect(c.run(w.ctx)).To(BeNil(), "the room is kept")
			members, waits := w.waiting(single.Name)
			w.Expect(waits).To(BeTrue())

			test.happens(w)
			w.cluster.Queue.Activate(logr.Discard(), members)
			w.Expect(w.schedule()).To(BeEmpty())
			w.Expect(w.nominated()).To(BeEmpty())
			_, waits = w.waiting(single.Name)
			w.Expect(waits).To(Equal(test.written), "the informers report what statuses named")
		})
	}
}

// writeNominations lets the statuses of all pods name their nominated nodes.
func (w *groupWorld) writeNominations() {
	for _, n := range w.cluster.Queue.Nominator().Dump() {
		written := n.Pod.DeepCopy()
		written.Status.NominatedNodeName = n.Node
		w.Expect(w.objects.Put(written)).To(Succeed())
		w.cluster.Queue.Update(logr.Discard(), n.Pod, written)
	}
}

// waiting reports whether a pod waits for an event, and returns the other pods of the queue.
func (w *groupWorld) waiting(name string) (others map[string]*corev1.Pod, waits bool) {
	others = map[string]*corev1.Pod{}
	for _, state := range w.cluster.Queue.Dump() {
		if state.Pod.Name == name {
			waits = state.Place == queue.Unschedulable
		} else {
			others[state.Pod.Name] = state.Pod
		}
	}
	return others, waits
}

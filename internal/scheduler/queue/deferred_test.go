// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/test/objects"
)

func newResizeFixture(t *testing.T, cfg Config, change ...func(*ProfileSettings)) *fixture {
	t.Helper()
	f := newFixtureOf(t, nil, change...)
	f.Close()
	cfg.Clock, cfg.DeferredResizes = f.clock, true
	f.Queue = New(cfg)
	f.Reconfigure(logger, f.settings, nil)
	t.Cleanup(f.Close)
	return f
}

func TestWhichAssignedPodsAreQueued(t *testing.T) {
	terminating := func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{} }
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want Place
	}{
		"a resize is deferred":   {newPod("a", onNode("n"), resize(corev1.PodReasonDeferred)), Active},
		"a resize is infeasible": {newPod("a", onNode("n"), resize(corev1.PodReasonInfeasible)), nowhere},
		"no resize is pending":   {newPod("a", onNode("n")), nowhere},
		"a pod with a deferred resize ends": {
			newPod("a", onNode("n"), resize(corev1.PodReasonDeferred), terminating), nowhere},
		"the scheduler name has no profile": {
			newPod("a", onNode("n"), resize(corev1.PodReasonDeferred), scheduler("x")), nowhere},
		"a pod on no node, as without gates": {newPod("a"), Active},
	} {
		t.Run(name, func(t *testing.T) {
			f := newResizeFixture(t, Config{PodLister: newStore(c.pod).lister()})
			f.Add(logger, c.pod)
			f.Expect(f.place(c.pod)).To(Equal(c.want))
		})
	}

	t.Run("none without DeferredResizes", func(t *testing.T) {
		pod := newPod("a", onNode("n"), resize(corev1.PodReasonDeferred))
		f := newFixtureOf(t, newStore(pod).lister())
		f.Add(logger, pod)
		f.Update(logger, pod, objects.Edited(pod, label("l", "new")))
		f.Expect(f.place(pod)).To(Equal(nowhere))
	})

	t.Run("an outdated version without a node is not queued", func(t *testing.T) {
		pod := newPod("a", onNode("n"), resize(corev1.PodReasonDeferred))
		f := newResizeFixture(t, Config{PodLister: newStore(pod).lister()})
		old := objects.Edited(pod, onNode(""), resize(""))
		f.Add(logger, old)
		f.Expect(f.place(pod)).To(Equal(nowhere))
	})
}

func TestDeferredResizeInTheQueue(t *testing.T) {
	start := func(t *testing.T, change ...func(*ProfileSettings)) (*fixture, *store, *corev1.Pod) {
		pod := newPod("a", onNode("n"), resize(corev1.PodReasonDeferred), nominated("m"))
		s := newStore(pod)
		f := newResizeFixture(t, Config{PodLister: s.lister()}, change...)
		f.Add(logger, pod)
		return f, s, pod
	}

	t.Run("waits for an event of the plugins that refused it", func(t *testing.T) {
		f, _, pod := start(t)
		f.reject("A")
		f.Expect(f.place(pod)).To(Equal(Unschedulable))
		f.event(claimAdded)
		f.Expect(f.place(pod)).To(Equal(Unschedulable))
		f.event(nodeAdded)
		f.Expect(f.place(pod)).To(Equal(Backoff))
	})

	t.Run("is not nominated, whatever its status or the attempt says", func(t *testing.T) {
		f, _, pod := start(t)
		p := f.pop()
		p.UnschedulablePlugins.Insert("A")
		_, err := f.Requeue(logger, p, nominate("n"))
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(f.Nominator().NodeOf(pod.UID)).To(BeEmpty())
	})

	t.Run("leaves when the resize is done", func(t *testing.T) {
		f, s, pod := start(t)
		s.set(objects.Edited(pod, resize("")))
		f.Delete(logger, pod)
		f.Expect(f.place(pod)).To(Equal(nowhere))
	})

	for name, end := range map[string]func(*fixture, *store, *corev1.Pod){
		"done, and the handler has not been called": func(_ *fixture, s *store, pod *corev1.Pod) {
			s.set(objects.Edited(pod, resize("")))
		},
		"infeasible": func(f *fixture, s *store, pod *corev1.Pod) {
			s.set(objects.Edited(pod, resize(corev1.PodReasonInfeasible)))
			f.Delete(logger, pod)
		},
		"of a pod that is deleted": func(f *fixture, s *store, pod *corev1.Pod) {
			s.unset(pod)
			f.Delete(logger, pod)
		},
	} {
		t.Run("in flight, is dropped when it comes back: "+name, func(t *testing.T) {
			f, s, pod := start(t)
			p := f.pop()
			end(f, s, pod)
			p.UnschedulablePlugins.Insert("A")
			kept, err := f.Requeue(logger, p, nil)
			f.Expect(kept).To(BeFalse())
			f.Expect(err).To(MatchError(ErrGone))
			f.Expect(f.place(pod)).To(Equal(nowhere))
		})
	}

	t.Run("in flight, stays if it is withdrawn and deferred again", func(t *testing.T) {
		f, s, pod := start(t)
		p := f.pop()
		f.Delete(logger, pod)
		again := objects.Edited(pod, label("l", "again"))
		s.set(again)
		f.Add(logger, again)
		f.giveBack(p, []string{"A"}, nil)
		f.Expect(f.place(pod)).To(Equal(Unschedulable))
	})

	t.Run("of a pod that was bound while it was in flight takes the place of that attempt", func(t *testing.T) {
		pod := newPod("a")
		s := newStore(pod)
		f := newResizeFixture(t, Config{PodLister: s.lister()})
		f.Add(logger, pod)
		p := f.pop()
		bound := objects.Edited(pod, onNode("n"), resize(corev1.PodReasonDeferred))
		s.set(bound)
		f.Delete(logger, pod)
		f.Add(logger, bound)
		f.giveBack(p, []string{"A"}, nil)
		f.event(nodeAdded)
		f.step(f.settings.Profiles["default"].MaxBackoff)
		f.Expect(f.pop().Pod).To(BeIdenticalTo(bound))
	})

	t.Run("leaves with its profile, waiting or in flight", func(t *testing.T) {
		f, _, pod := start(t)
		dropped := f.Reconfigure(logger, &Settings{}, sets.New("default"))
		f.Expect(dropped).To(ConsistOf(pod))
		f.Expect(f.place(pod)).To(Equal(nowhere))

		f.Reconfigure(logger, f.settings, sets.New("default"))
		f.Add(logger, pod)
		p := f.pop()
		f.Reconfigure(logger, &Settings{}, sets.New("default"))
		kept, err := f.Requeue(logger, p, nil)
		f.Expect(kept).To(BeFalse())
		f.Expect(err).NotTo(HaveOccurred())
	})

	t.Run("is tried again when its profile is changed", func(t *testing.T) {
		f, _, pod := start(t)
		f.reject("A")
		f.Reconfigure(logger, &Settings{Profiles: map[string]*ProfileSettings{"default": profileOf()}},
			sets.New("default"))
		f.Expect(f.place(pod)).To(Equal(Active))
	})

	t.Run("is not reported while a plugin holds it", func(t *testing.T) {
		f, _, pod := start(t, preEnqueueOf(newDoor("A", refusal)))
		f.Expect(f.place(pod)).To(Equal(Gated))
		f.step(holdDelay + holdInterval)
		f.Expect(f.reports()).To(BeEmpty())
	})
}

func TestDeferredResizeOfAMemberIsInNoGroup(t *testing.T) {
	groups := podgroup.NewRegistry()
	groups.SetServed(podgroup.SchedulerPlugins, func() bool { return true }, nil)
	groups.SetGroup(podgroup.Group{
		Key: podgroup.Key{Source: podgroup.SchedulerPlugins, Namespace: "ns", Name: "g"}, MinMember: 2})
	f := newResizeFixture(t, Config{Groups: groups})
	member := newPod("a", objects.MemberOf("g"), onNode("n"), resize(corev1.PodReasonDeferred))
	other := newPod("b", objects.MemberOf("g"))
	f.Add(logger, member)
	f.Add(logger, other)
	f.Expect(f.place(other)).To(Equal(Gated), "it has no company")
	popped := f.Pop(logger)
	f.Expect(popped.Pod.Pod).To(BeIdenticalTo(member))
	f.Expect(popped.Group).To(BeNil())
}

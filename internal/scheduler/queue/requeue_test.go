// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/test/objects"
)

func TestRequeue(t *testing.T) {
	always := func(*fixture) {}
	tests := []struct {
		name                   string
		unschedulable, pending []string
		before, during         func(*fixture)
		want                   Place
	}{
		{
			name:          "a pod that plugins refused is unschedulable",
			unschedulable: []string{"A"},
			want:          Unschedulable,
		},
		{
			name: "a pod that met an error backs off",
			want: ErrorBackoff,
		},
		{
			name:          "an event during the cycle that may help the pod is not lost",
			unschedulable: []string{"A"},
			during:        func(f *fixture) { f.event(nodeAdded) },
			want:          Backoff,
		},
		{
			name:          "an event before the cycle has no effect",
			unschedulable: []string{"A"},
			before:        func(f *fixture) { f.event(nodeAdded) },
			want:          Unschedulable,
		},
		{
			name:          "an event that only another plugin waits for has no effect",
			unschedulable: []string{"A"},
			during:        func(f *fixture) { f.event(claimAdded) },
			want:          Unschedulable,
		},
		{
			name:    "an event that a pending plugin waits for retries the pod immediately",
			pending: []string{"A"},
			during:  func(f *fixture) { f.event(nodeAdded) },
			want:    Active,
		},
		{
			name:          "an event for a pending plugin outweighs one for a rejecting plugin, in any order",
			unschedulable: []string{"A"},
			pending:       []string{"B"},
			during:        func(f *fixture) { f.event(nodeAdded); f.event(claimAdded) },
			want:          Active,
		},
		{
			name:          "a pending plugin that is not concerned does not speed up the pod",
			unschedulable: []string{"A"},
			pending:       []string{"B"},
			during:        func(f *fixture) { f.event(nodeAdded) },
			want:          Backoff,
		},
		{
			name:          "a pod that was activated during its cycle is retried",
			unschedulable: []string{"A"},
			during:        func(f *fixture) { f.Activate(logger, map[string]*corev1.Pod{"": newPod("a")}) },
			want:          Backoff,
		},
		{
			name:          "the activation of another pod has no effect",
			unschedulable: []string{"A"},
			during: func(f *fixture) {
				f.Add(logger, newPod("b"))
				b := f.pop()
				f.Activate(logger, map[string]*corev1.Pod{"": b.Pod})
				f.Done(b.Pod.UID)
			},
			want: Unschedulable,
		},
		{
			name:          "a change of the pod itself during its cycle is not lost",
			unschedulable: []string{"L"},
			during:        func(f *fixture) { f.Update(logger, newPod("a"), newPod("a", label("x", "y"))) },
			want:          Backoff,
		},
		{
			name:          "the flush of another waiting pod has no effect",
			unschedulable: []string{"A"},
			before: func(f *fixture) {
				f.Add(logger, newPod("waiting", priority(1)))
				f.reject("B")
			},
			during: func(f *fixture) { f.clock.Step(time.Hour); f.flushNow() },
			want:   Unschedulable,
		},
		{
			name:          "events are not kept for a pod that was released, which is retried after its back-off",
			unschedulable: []string{"A"},
			during:        func(f *fixture) { f.Done("a") },
			want:          Backoff,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, func(p *ProfileSettings) {
				p.Hints[fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodLabel}] = []Hint{{Plugin: "L"}}
			})
			pod := newPod("a")
			if tt.before == nil {
				tt.before = always
			}
			if tt.during == nil {
				tt.during = always
			}
			tt.before(f)
			f.Add(logger, pod)
			p := f.pop()
			tt.during(f)
			f.giveBack(p, tt.unschedulable, tt.pending)
			f.Expect(f.place(pod)).To(Equal(tt.want))
			f.Expect(f.Counts().InFlight).To(BeZero())
			f.Expect(f.Counts().InFlightEvents).To(BeZero())
		})
	}
}

func TestRequeueReleases(t *testing.T) {
	t.Run("a pod that is popped again immediately is in flight again, with an empty list of events",
		func(t *testing.T) {
			f := newFixture(t)
			pod := newPod("a")
			f.Add(logger, pod)
			for range 3 {
				p := f.pop()
				f.event(nodeAdded)
				f.giveBack(p, nil, []string{"A"})
				f.Expect(f.Counts()).To(Equal(Counts{Active: 1}))
			}
			p := f.pop()
			f.giveBack(p, nil, []string{"A"})
			f.Expect(f.place(pod)).To(Equal(Unschedulable), "events of earlier cycles are not replayed")
		})
	t.Run("a pod that is gone is released and not queued", func(t *testing.T) {
		pod := newPod("a")
		for reason, gone := range map[string]func(*fixture, *store){
			"deleted, by the handler":   func(f *fixture, _ *store) { f.Delete(logger, pod) },
			"deleted, by the lister":    func(_ *fixture, s *store) { s.unset(pod) },
			"re-created, by the lister": func(_ *fixture, s *store) { s.set(newPod("a", uid("2"))) },
			"bound, by the lister":      func(_ *fixture, s *store) { s.set(objects.Edited(pod, onNode("n"))) },
		} {
			t.Run(reason, func(t *testing.T) {
				s := newStore(pod)
				f := newFixtureOf(t, s.lister())
				f.Add(logger, pod)
				f.Nominator().AddNominatedPod(logger, &schedframework.PodInfo{Pod: pod}, nominate("n"))
				p := f.pop()
				f.event(nodeAdded)
				gone(f, s)
				kept, err := f.Requeue(logger, p, nil)
				f.Expect(kept).To(BeFalse())
				f.Expect(errors.Is(err, ErrGone)).To(BeTrue())
				f.Expect(err).To(MatchError(ContainSubstring("ns/a: ")))
				f.Expect(f.Counts()).To(Equal(Counts{}))
				f.Expect(f.Nominator().NominatedPodsForNode("n")).To(BeEmpty())
			})
		}
	})
	t.Run("a pod that was deleted by mistake comes back", func(t *testing.T) {
		for name, back := range map[string]func(*fixture, *corev1.Pod){
			"added": func(f *fixture, pod *corev1.Pod) { f.Add(logger, pod) },
			"updated": func(f *fixture, pod *corev1.Pod) {
				f.Update(logger, pod, objects.Edited(pod, label("x", "y")))
			},
		} {
			t.Run(name, func(t *testing.T) {
				f := newFixture(t)
				pod := newPod("a")
				f.Add(logger, pod)
				p := f.pop()
				f.Delete(logger, pod)
				back(f, pod)
				f.giveBack(p, []string{"A"}, nil)
				f.Expect(f.place(pod)).To(Equal(Unschedulable))
			})
		}
	})
	t.Run("a pod whose profile was removed is released and dropped without an error", func(t *testing.T) {
		f := newFixture(t)
		f.Add(logger, newPod("a"))
		p := f.pop()
		f.event(nodeAdded)
		f.Expect(f.Reconfigure(logger, &Settings{}, sets.New("default"))).To(BeEmpty())
		f.Expect(f.Counts().InFlight).To(Equal(1))
		kept, err := f.Requeue(logger, p, nil)
		f.Expect(kept).To(BeFalse())
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(f.Counts()).To(Equal(Counts{}))
	})
	t.Run("a pod that is queued already stays where it is", func(t *testing.T) {
		f := newFixture(t)
		pod := newPod("a")
		f.Add(logger, pod)
		p := f.pop()
		f.Done(pod.UID)
		f.Update(logger, pod, pod)
		kept, err := f.Requeue(logger, p, nominate("n"))
		f.Expect(kept).To(BeTrue())
		f.Expect(errors.Is(err, ErrAlreadyQueued)).To(BeTrue())
		f.Expect(f.Counts()).To(Equal(Counts{Active: 1}))
		f.Expect(f.Nominator().NominatedPodsForNode("n")).To(BeEmpty(), "the attempt is of the past")
	})
	t.Run("a pod that was never popped may be requeued", func(t *testing.T) {
		f := newFixture(t)
		f.giveBack(&schedframework.QueuedPodInfo{PodInfo: info(newPod("a"))}, []string{"A"}, nil)
		f.Expect(f.Counts()).To(Equal(Counts{Backoff: 1}))
		f.Expect(f.pop().InitialAttemptTimestamp).To(HaveValue(Equal(f.clock.Now())))
	})
	t.Run("a late requeue of an earlier pod does not release its successor", func(t *testing.T) {
		f := newFixture(t)
		pod := newPod("a")
		f.Add(logger, pod)
		first := f.pop()
		f.Done(pod.UID) // bound, as it seems
		f.clock.Step(time.Second)
		f.Update(logger, pod, pod)
		second := f.pop()
		_, err := f.Requeue(logger, first, nil)
		f.Expect(errors.Is(err, ErrAlreadyQueued)).To(BeTrue())
		f.Expect(f.place(pod)).To(Equal(InFlight))
		f.event(nodeAdded)
		f.giveBack(second, nil, []string{"A"})
		f.Expect(f.place(pod)).To(Equal(Active), "the events of the second cycle were kept")
	})
}

func TestRequeueRefreshesThePod(t *testing.T) {
	t.Run("an assumed copy comes back as the newest version of the pod", func(t *testing.T) {
		pod := newPod("a", func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{
				{Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}}}
		})
		for _, withLister := range []bool{false, true} {
			newer := objects.Edited(pod, label("x", "y"), func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1")
			})
			s := newStore(pod)
			f := newFixtureOf(t, s.lister())
			if !withLister {
				f = newFixture(t)
			}
			f.Add(logger, pod)
			assumed := f.pop().DeepCopy()
			assumed.Pod.Spec.NodeName = "n"
			assumed.CalculateResource()
			s.set(newer)
			f.Update(logger, pod, newer)
			f.giveBack(assumed, nil, []string{"A"})
			f.event(nodeAdded)
			p := f.pop()
			f.Expect(p.Pod).To(BeIdenticalTo(newer))
			f.Expect(p.CalculateResource().Resource.GetMilliCPU()).To(BeEquivalentTo(1000))
		}
	})
	t.Run("a nomination keeps its node and gets the newest version of the pod", func(t *testing.T) {
		f := newFixture(t)
		pod := newPod("a")
		f.Add(logger, pod)
		p := f.pop()
		f.Nominator().AddNominatedPod(logger, p.PodInfo, nominate("n"))
		newer := objects.Edited(pod, label("x", "y"))
		f.Update(logger, pod, newer)
		f.giveBack(p, []string{"A"}, nil)
		f.Expect(f.Nominator().NominatedPodsForNode("n")).To(HaveLen(1))
		f.Expect(f.Nominator().NominatedPodsForNode("n")[0].GetPod()).To(BeIdenticalTo(newer))
	})
	t.Run("the nomination of a failed attempt is there before the pod can be popped", func(t *testing.T) {
		f := newFixture(t)
		f.Add(logger, newPod("a", nominated("old")))
		f.Expect(f.Nominator().NominatedPodsForNode("old")).To(HaveLen(1))
		p := f.pop()
		p.UnschedulablePlugins.Insert("A")
		kept, err := f.Requeue(logger, p, nominate("new"))
		f.Expect(kept).To(BeTrue())
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(f.Nominator().NominatedPodsForNode("old")).To(BeEmpty())
		f.Expect(f.Nominator().NominatedPodsForNode("new")).To(HaveLen(1))
	})
	t.Run("a pod that comes back without a profile is not nominated", func(t *testing.T) {
		f := newFixture(t)
		f.Add(logger, newPod("a"))
		p := f.pop()
		f.Reconfigure(logger, &Settings{}, nil)
		kept, err := f.Requeue(logger, p, nominate("n"))
		f.Expect(kept).To(BeFalse())
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(f.Nominator().NominatedPodsForNode("n")).To(BeEmpty())
	})
}

func TestRequeueCounts(t *testing.T) {
	f := newFixture(t)
	f.Add(logger, newPod("a"))
	for i, rejectors := range [][]string{{"A"}, {}, {}, {"A"}, {}} {
		p := f.pop()
		f.Expect(p.Attempts).To(Equal(i + 1))
		p.WasFlushedFromUnschedulable = true
		f.giveBack(p, rejectors, nil)
		f.Expect(p.WasFlushedFromUnschedulable).To(BeFalse())
		f.Expect(p.Timestamp).To(Equal(f.clock.Now()))
		f.Expect(p.UnschedulableCount).To(Equal([]int{1, 1, 1, 2, 2}[i]))
		f.Expect(p.ConsecutiveErrorsCount).To(Equal([]int{0, 1, 2, 0, 1}[i]))
		f.event(nodeAdded)
		f.step(time.Minute)
	}
}

func TestRequeueOwnsItsSets(t *testing.T) {
	t.Run("gating a pod leaves the diagnosis of the cycle alone", func(t *testing.T) {
		shut := newDoor("G", nil)
		f := newFixture(t, preEnqueueOf(shut))
		f.Add(logger, newPod("a"))
		p := f.pop()
		diagnosis := sets.New("A")
		p.UnschedulablePlugins, p.PendingPlugins = diagnosis, nil
		shut.status = refusal
		f.event(nodeAdded)
		_, err := f.Requeue(logger, p, nil)
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(f.place(p.Pod)).To(Equal(Gated))
		f.Expect(sets.List(diagnosis)).To(Equal([]string{"A"}))
	})
	t.Run("a pod that is only pending may be gated", func(t *testing.T) {
		shut := newDoor("G", nil)
		f := newFixture(t, preEnqueueOf(shut))
		f.Add(logger, newPod("a"))
		p := f.pop()
		p.UnschedulablePlugins, p.PendingPlugins = nil, sets.New("A")
		shut.status = refusal
		f.event(nodeAdded)
		_, err := f.Requeue(logger, p, nil)
		f.Expect(err).NotTo(HaveOccurred())
		state, _ := f.Get(p.Pod.UID)
		f.Expect(state.GatingPlugin).To(Equal("G"))
		f.Expect(state.UnschedulablePlugins).To(Equal([]string{"G"}))
	})
}

func nominate(node string) *fwk.NominatingInfo {
	return &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/test/objects"
)

func info(pod *corev1.Pod) *schedframework.PodInfo {
	i, err := schedframework.NewPodInfo(pod)
	if err != nil {
		panic(err)
	}
	return i
}

// nominatedTo lists the names of the pods that are nominated for a node.
func nominatedTo(n fwk.PodNominator, node string) []string {
	var names []string
	for _, p := range n.NominatedPodsForNode(node) {
		names = append(names, p.GetPod().Name)
	}
	return names
}

func TestNominator(t *testing.T) {
	fromStatus := &fwk.NominatingInfo{NominatingMode: fwk.ModeNoop, NominatedNodeName: "ignored"}
	tests := []struct {
		name string
		do   func(f *fixture, n *Nominator)
		want map[string][]string
	}{
		{
			name: "a pod is nominated for the given node",
			do: func(f *fixture, n *Nominator) {
				n.AddNominatedPod(logger, info(newPod("a", nominated("old"))), nominate("n1"))
			},
			want: map[string][]string{"n1": {"a"}},
		},
		{
			name: "or for the one in its status",
			do: func(f *fixture, n *Nominator) {
				n.AddNominatedPod(logger, info(newPod("a", nominated("n1"))), nil)
				n.AddNominatedPod(logger, info(newPod("b", nominated("n1"))), fromStatus)
				n.AddNominatedPod(logger, info(newPod("c")), nil)
			},
			want: map[string][]string{"n1": {"a", "b"}},
		},
		{
			name: "a new nomination replaces the old one",
			do: func(f *fixture, n *Nominator) {
				n.AddNominatedPod(logger, info(newPod("a")), nominate("n1"))
				n.AddNominatedPod(logger, info(newPod("b")), nominate("n1"))
				n.AddNominatedPod(logger, info(newPod("a")), nominate("n2"))
			},
			want: map[string][]string{"n1": {"b"}, "n2": {"a"}},
		},
		{
			name: "a nomination for no node removes the old one",
			do: func(f *fixture, n *Nominator) {
				n.AddNominatedPod(logger, info(newPod("a")), nominate("n1"))
				n.AddNominatedPod(logger, info(newPod("a", nominated("n1"))), nominate(""))
			},
		},
		{
			name: "so does one from a status that names none",
			do: func(f *fixture, n *Nominator) {
				n.AddNominatedPod(logger, info(newPod("a")), nominate("n1"))
				n.AddNominatedPod(logger, info(newPod("a")), nil)
			},
		},
		{
			name: "an update without a nomination keeps the one in memory",
			do: func(f *fixture, n *Nominator) {
				n.AddNominatedPod(logger, info(newPod("a")), nominate("n1"))
				n.UpdateNominatedPod(logger, newPod("a"), info(newPod("a", label("x", "y"))))
			},
			want: map[string][]string{"n1": {"a"}},
		},
		{
			name: "an update that adds a node takes effect",
			do: func(f *fixture, n *Nominator) {
				n.AddNominatedPod(logger, info(newPod("a")), nominate("n1"))
				n.UpdateNominatedPod(logger, newPod("a"), info(newPod("a", nominated("n2"))))
			},
			want: map[string][]string{"n2": {"a"}},
		},
		{
			name: "a late update to an earlier nomination keeps the one in memory",
			do: func(f *fixture, n *Nominator) {
				n.AddNominatedPod(logger, info(newPod("a")), nominate("old"))
				n.AddNominatedPod(logger, info(newPod("a")), nominate("n1"))
				n.UpdateNominatedPod(logger, newPod("a"), info(newPod("a", nominated("old"))))
				n.UpdateNominatedPod(logger, newPod("a", nominated("old")),
					info(newPod("a", nominated("old"), label("x", "y"))))
			},
			want: map[string][]string{"n1": {"a"}},
		},
		{
			name: "so do those to several, of which one may be left out",
			do: func(f *fixture, n *Nominator) {
				for _, node := range []string{"old", "ignored", "n2", "n1"} {
					n.AddNominatedPod(logger, info(newPod("a")), nominate(node))
				}
				n.UpdateNominatedPod(logger, newPod("a"), info(newPod("a", nominated("old"))))
				n.UpdateNominatedPod(logger, newPod("a", nominated("old")), info(newPod("a", nominated("n2"))))
				n.UpdateNominatedPod(logger, newPod("a", nominated("n2")), info(newPod("a", nominated("n1"))))
			},
			want: map[string][]string{"n1": {"a"}},
		},
		{
			name: "an update to an earlier nomination takes effect if the update to it was seen",
			do: func(f *fixture, n *Nominator) {
				n.AddNominatedPod(logger, info(newPod("a")), nominate("old"))
				n.AddNominatedPod(logger, info(newPod("a")), nominate("n1"))
				n.UpdateNominatedPod(logger, newPod("a"), info(newPod("a", nominated("old"))))
				n.UpdateNominatedPod(logger, newPod("a", nominated("old")), info(newPod("a", nominated("n1"))))
				n.UpdateNominatedPod(logger, newPod("a", nominated("n1")), info(newPod("a", nominated("old"))))
			},
			want: map[string][]string{"old": {"a"}},
		},
		{
			name: "so does one if the status named that node before",
			do: func(f *fixture, n *Nominator) {
				n.AddNominatedPod(logger, info(newPod("a", nominated("old"))), nil)
				n.AddNominatedPod(logger, info(newPod("a", nominated("old"))), nominate("n1"))
				n.UpdateNominatedPod(logger, newPod("a", nominated("old")), info(newPod("a", nominated("n1"))))
				n.UpdateNominatedPod(logger, newPod("a", nominated("n1")), info(newPod("a", nominated("old"))))
			},
			want: map[string][]string{"old": {"a"}},
		},
		{
			name: "an update that removes the node takes effect",
			do: func(f *fixture, n *Nominator) {
				n.AddNominatedPod(logger, info(newPod("a")), nominate("n1"))
				n.UpdateNominatedPod(logger, newPod("a", nominated("n1")), info(newPod("a")))
			},
		},
		{
			name: "an update of a pod that is not nominated may nominate it",
			do: func(f *fixture, n *Nominator) {
				n.UpdateNominatedPod(logger, newPod("a"), info(newPod("a")))
				n.UpdateNominatedPod(logger, newPod("b", nominated("n1")),
					info(newPod("b", nominated("n1"), label("x", "y"))))
			},
			want: map[string][]string{"n1": {"b"}},
		},
		{
			name: "the deletion of a pod leaves its successor's nomination alone",
			do: func(f *fixture, n *Nominator) {
				n.AddNominatedPod(logger, info(newPod("a", uid("1"))), nominate("n1"))
				n.AddNominatedPod(logger, info(newPod("a", uid("2"))), nominate("n2"))
				n.DeleteNominatedPodIfExists(newPod("a", uid("1")))
				n.DeleteNominatedPodIfExists(newPod("unknown"))
			},
			want: map[string][]string{"n2": {"a"}},
		},
		{
			name: "a pod of a scheduler name without a profile is not nominated",
			do: func(f *fixture, n *Nominator) {
				n.AddNominatedPod(logger, info(newPod("a", scheduler("other"))), nominate("n1"))
			},
		},
		{
			name: "neither is one that is being deleted",
			do: func(f *fixture, n *Nominator) {
				pod := newPod("a", nominated("n1"))
				n.AddNominatedPod(logger, info(pod), nil)
				n.UpdateNominatedPod(logger, pod,
					info(objects.Edited(pod, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} })))
			},
		},
		{
			name: "an update that does not change the node in the status keeps another that was nominated in memory",
			do: func(f *fixture, n *Nominator) {
				n.AddNominatedPod(logger, info(newPod("a", nominated("old"))), nominate("n1"))
				n.UpdateNominatedPod(logger, newPod("a", nominated("old")),
					info(newPod("a", nominated("old"), label("x", "y"))))
			},
			want: map[string][]string{"n1": {"a"}},
		},
		{
			name: "so does an attempt without a nomination",
			do: func(f *fixture, n *Nominator) {
				f.Add(logger, newPod("a", nominated("old")))
				p := f.pop()
				f.Nominator().AddNominatedPod(logger, p.PodInfo, nominate("n1"))
				f.Expect(f.Requeue(logger, p, nil)).To(BeTrue())
			},
			want: map[string][]string{"n1": {"a"}},
		},
		{
			name: "the queue nominates the pods it is given, also gated ones",
			do: func(f *fixture, n *Nominator) {
				f.Reconfigure(logger,
					f.with(profileOf(preEnqueueOf(&preEnqueuer{name: "G", answer: func(pod *corev1.Pod) *fwk.Status {
						if len(pod.Spec.SchedulingGates) != 0 {
							return refusal
						}
						return nil
					}}))), nil)
				f.Add(logger, newPod("added", nominated("n1")))
				f.Update(logger, nil, newPod("updated", nominated("n1")))
				f.Add(logger, newPod("gated", gates("x"), nominated("n1")))
			},
			want: map[string][]string{"n1": {"added", "updated", "gated"}},
		},
		{
			name: "a nomination made in memory survives gating",
			do: func(f *fixture, n *Nominator) {
				shut := newDoor("A", nil)
				f.Reconfigure(logger, f.with(profileOf(preEnqueueOf(shut))), nil)
				f.Add(logger, newPod("a", nominated("old")))
				p := f.pop()
				f.giveBack(p, []string{"A"}, nil)
				f.Nominator().AddNominatedPod(logger, p.PodInfo, nominate("n1"))
				shut.status = refusal
				f.event(nodeAdded)
				shut.status = nil
				f.event(nodeAdded)
			},
			want: map[string][]string{"n1": {"a"}},
		},
		{
			name: "updates of waiting pods are recorded",
			do: func(f *fixture, n *Nominator) {
				for _, name := range []string{"active", "unschedulable"} {
					f.Add(logger, newPod(name))
					if name == "unschedulable" {
						f.popOf(newPod("active"))
						f.reject("A")
						f.Done("active")
						f.Add(logger, newPod("active"))
					}
				}
				for _, name := range []string{"active", "unschedulable"} {
					f.Update(logger, newPod(name), newPod(name, nominated("n1")))
				}
			},
			want: map[string][]string{"n1": {"active", "unschedulable"}},
		},
		{
			name: "a pod that leaves the queue is no longer nominated",
			do: func(f *fixture, n *Nominator) {
				f.Add(logger, newPod("a", nominated("n1")))
				f.Delete(logger, newPod("a"))
				f.Add(logger, newPod("b", nominated("n1")))
				f.pop()
				f.Delete(logger, newPod("b"))
				f.Add(logger, newPod("c", uid("1"), nominated("n1")))
				f.Update(logger, newPod("c", uid("1"), nominated("n1")), newPod("c", uid("2")))
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			n := f.Nominator()
			tt.do(f, n)
			got := map[string][]string{}
			for _, node := range []string{"", "old", "ignored", "n1", "n2"} {
				if names := nominatedTo(f.Nominator(), node); len(names) != 0 {
					got[node] = names
				}
			}
			if tt.want == nil {
				tt.want = map[string][]string{}
			}
			f.Expect(got).To(Equal(tt.want))
			f.Expect(n.size.Load()).To(BeEquivalentTo(len(n.byPod)))
			f.Expect(n.byNode).To(HaveLen(len(tt.want)), "no empty lists are kept")
		})
	}
}

func TestNominatorReadsTheLister(t *testing.T) {
	fine, deleted, recreated, bound := newPod("fine"), newPod("deleted"), newPod("recreated"), newPod("bound")
	f := newFixtureOf(t, newStore(fine, newPod("recreated", uid("2")), objects.Edited(bound, onNode("n"))).lister())
	for _, pod := range []*corev1.Pod{fine, deleted, recreated, bound} {
		f.Nominator().AddNominatedPod(logger, info(pod), nominate("n1"))
		f.Nominator().UpdateNominatedPod(logger, pod, info(objects.Edited(pod, nominated("n1"))))
	}
	f.Expect(nominatedTo(f.Nominator(), "n1")).To(Equal([]string{"fine"}))
}

func TestNominatedPodsAreCopies(t *testing.T) {
	pod := newPod("a", func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "zone"}},
		}}
		p.Spec.Containers = []corev1.Container{
			{Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}}}
	})
	f := newFixture(t)
	f.Nominator().AddNominatedPod(logger, info(pod), nominate("n"))
	first, second := f.Nominator().NominatedPodsForNode("n"), f.Nominator().NominatedPodsForNode("n")
	f.Expect(first[0]).NotTo(BeIdenticalTo(second[0]))
	f.Expect(first[0].GetRequiredAntiAffinityTerms()).To(HaveLen(1))
	f.Expect(first[0].CalculateResource().Resource.GetMilliCPU()).To(BeEquivalentTo(2000))
	first[0] = nil
	f.Expect(f.Nominator().NominatedPodsForNode("n")[0].GetPod()).To(BeIdenticalTo(pod))
}

// nominatedNodes returns the numbers of the nodes with nominated pods that count for a pod.
func nominatedNodes(n *Nominator, pod *corev1.Pod) map[string]uint64 {
	var all framework.Nominations
	return maps.Collect(all.Read(n, pod).All)
}

// TestReadersOfNominationsSeeAllChanges changes nominations at random. Those who follow the
// changes, for pods of several priorities, must see the same as those who read all nominations.
func TestReadersOfNominationsSeeAllChanges(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		f := newFixture(t)
		n := f.Nominator().Fork() // it checks no informer cache
		pods := make([]*corev1.Pod, 12)
		for i := range pods {
			pods[i] = newPod(fmt.Sprint("pod-", i), func(p *corev1.Pod) { p.Spec.Priority = ptr.To(int32(i % 3)) })
		}
		other := newPod("other") // is never nominated
		var nominations framework.Nominations
		pos, followed := uint64(0), map[string]uint64{}
		for range 2000 {
			reader := pods[r.IntN(len(pods))]
			read, before := nominations.Read(n, reader), nominatedNodes(n, reader)
			changes := r.IntN(3)
			for range changes {
				changeNominations(r, n, pods)
			}
			want := nominatedNodes(n, reader)
			if changed := !maps.Equal(before, want); changed || changes == 0 {
				f.Expect(read.Changed(reader)).To(Equal(changed), "seed %d", seed)
			}
			got := nominations.Read(n, reader)
			f.Expect(maps.Collect(got.All)).To(Equal(want), "seed %d", seed)
			f.Expect(got.Any()).To(Equal(len(want) > 0))
			f.Expect(got.Own()).To(Equal(n.NodeOf(reader.UID)))

			all := nominations.Read(n, other)
			changed, ok := all.Since(pos)
			if !ok {
				followed = maps.Collect(all.All)
			}
			for _, name := range changed {
				followed[name] = all.Number(name)
			}
			pos = all.End()
			maps.DeleteFunc(followed, func(_ string, number uint64) bool { return number == 0 })
			f.Expect(followed).To(Equal(nominatedNodes(n, other)), "seed %d", seed)
		}
	}
}

// changeNominations makes one random change.
func changeNominations(r *rand.Rand, n *Nominator, pods []*corev1.Pod) {
	pod := pods[r.IntN(len(pods))]
	switch r.IntN(10) {
	case 0:
		n.Suspend()()
	case 1, 2, 3, 4:
		n.DeleteNominatedPodIfExists(pod)
	default:
		n.AddNominatedPod(logger, info(pod), nominate(fmt.Sprint("n", r.IntN(5))))
	}
}

func TestNodesWithNominatedPodsOfHigherPriority(t *testing.T) {
	priority := func(priority int32) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Priority = &priority }
	}
	f := newFixture(t)
	expect := func(pod *corev1.Pod, nodes ...string) {
		t.Helper()
		f.Expect(slices.Collect(maps.Keys(nominatedNodes(f.Nominator(), pod)))).To(ConsistOf(nodes))
	}
	high := newPod("high", priority(10))
	expect(high)
	f.Nominator().AddNominatedPod(logger, info(high), nominate("n1"))
	f.Nominator().AddNominatedPod(logger, info(newPod("low", priority(-1))), nominate("n1"))
	f.Nominator().AddNominatedPod(logger, info(newPod("middle", priority(5))), nominate("n2"))
	expect(newPod("a"), "n1", "n2")
	expect(newPod("b", priority(7)), "n1")
	expect(newPod("c", priority(10)), "n1")
	expect(high)
	expect(newPod("d", priority(11)))
}

func TestNominationsChangeTheNumberOfTheirNode(t *testing.T) {
	priority := func(priority int32) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Priority = &priority }
	}
	f := newFixture(t)
	number := func(pod *corev1.Pod) uint64 {
		return nominatedNodes(f.Nominator(), pod)["n"]
	}
	seen := sets.New[uint64]()
	expectNew := func(when string, numbers ...uint64) {
		t.Helper()
		for _, n := range numbers {
			f.Expect(n).NotTo(BeZero(), when)
			f.Expect(seen.Has(n)).To(BeFalse(), when)
			seen.Insert(n)
		}
	}
	some, other := newPod("some", priority(1)), newPod("other", priority(1))
	a, b, important := newPod("a", priority(1)), newPod("b", priority(1)), newPod("important", priority(9))
	f.Nominator().AddNominatedPod(logger, info(a), nominate("n"))
	expectNew("one is nominated", number(some))
	f.Expect(number(some)).To(Equal(number(other)))
	f.Expect(number(a)).To(BeZero())
	f.Nominator().AddNominatedPod(logger, info(b), nominate("n"))
	f.Nominator().AddNominatedPod(logger, info(important), nominate("n"))
	expectNew("each counts others", number(a), number(b), number(some), number(newPod("c", priority(5))))
	f.Nominator().AddNominatedPod(logger, info(other), nominate("elsewhere"))
	f.Expect(seen.Has(number(some))).To(BeTrue())
	f.Nominator().DeleteNominatedPodIfExists(b)
	f.Nominator().DeleteNominatedPodIfExists(important)
	expectNew("as at first", number(some))
	f.Nominator().DeleteNominatedPodIfExists(a)
	f.Expect(number(some)).To(BeZero())
	f.Nominator().AddNominatedPod(logger, info(a), nominate("n"))
	expectNew("once more", number(some))
}

func TestNominationsOfAForkAreSuspended(t *testing.T) {
	f := newFixture(t)
	for _, name := range []string{"b", "a", "c"} {
		f.Nominator().AddNominatedPod(logger, info(newPod(name)), nominate("n"))
	}
	fork := f.Nominator().Fork()
	before := nominatedNodes(fork, newPod("some"))
	restore := fork.Suspend()
	f.Expect(fork.Empty()).To(BeTrue())
	f.Expect(nominatedTo(fork, "n")).To(BeEmpty())
	f.Expect(fork.Dump()).To(BeEmpty())
	f.Expect(nominatedTo(f.Nominator(), "n")).To(HaveLen(3), "the queue keeps them")
	restore()
	f.Expect(nominatedTo(fork, "n")).To(Equal([]string{"b", "a", "c"}))
	f.Expect(nominatedNodes(fork, newPod("some"))).To(Equal(before))
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

func nominateTo(node string) *fwk.NominatingInfo {
	return &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node}
}

// nominateGroup lets a group of two pods, which preempts, be refused with nominations.
func (f *fixture) nominateGroup() (key podgroup.Key, a, b *corev1.Pod) {
	f.t.Helper()
	key = f.setGroup("g", 2)
	a, b = newPod("a", memberOf("g")), newPod("b", memberOf("g"))
	f.addNominated(a, b)
	return key, a, b
}

// addNominated adds the pods of a group or of a tree, and lets them be refused with nominations.
func (f *fixture) addNominated(pods ...*corev1.Pod) {
	f.t.Helper()
	for _, pod := range pods {
		f.Add(logger, pod)
	}
	popped, _ := f.popGroup()
	for _, info := range append(popped.Group.Others, popped.Pod) {
		info.UnschedulablePlugins.Insert("A")
		_, err := f.Requeue(logger, info, nominateTo("n-"+info.Pod.Name))
		f.Expect(err).NotTo(HaveOccurred())
	}
}

// tryAll lets all that wait be tried: groups that are incomplete end up behind their gates.
func (f *fixture) tryAll() {
	f.event(nodeAdded)
	f.step(10 * time.Second)
	f.Add(logger, newPod("single", priority(-1)))
	for f.next().Pod.Name != "single" {
	}
}

func TestAnIncompleteGroupGivesUpItsNominatedNodes(t *testing.T) {
	for name, test := range map[string]struct {
		change func(f *fixture, key podgroup.Key, b *corev1.Pod)
		ended  []string
		after  time.Duration
	}{
		"a member is deleted": {func(f *fixture, _ podgroup.Key, b *corev1.Pod) { f.Delete(logger, b) },
			[]string{"n-a"}, groupPatience},
		"more are needed": {func(f *fixture, _ podgroup.Key, _ *corev1.Pod) { f.setGroup("g", 3) },
			[]string{"n-a", "n-b"}, groupPatience},
		"the PodGroup is deleted": {func(f *fixture, key podgroup.Key, _ *corev1.Pod) {
			f.groups.DeleteGroup(key)
			f.GroupChanged(logger, key)
		}, []string{"n-a", "n-b"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := withGroups(t, func(p *ProfileSettings) {
				p.Hints[schedframework.EventAssignedPodDelete] = []Hint{{Plugin: "C"}}
			})
			key, a, b := f.nominateGroup()
			f.Add(logger, newPod("small"))
			small := f.reject("C")
			test.change(f, key, b)
			if test.after > 0 {
				f.tryAll()
				f.Expect(f.place(a)).To(Equal(Gated))
				f.clock.Step(test.after - time.Second)
				f.Expect(f.TendHeldGroups(logger)).To(BeEmpty())
				f.Expect(f.nominator.NodeOf(a.UID)).
					To(Equal("n-a"), "a pod that is replaced soon keeps the nodes for its group")
				f.clock.Step(time.Second)
			}
			var ended []string
			for _, pod := range f.TendHeldGroups(logger) {
				ended = append(ended, pod.Status.NominatedNodeName)
			}
			f.Expect(ended).To(ConsistOf(test.ended))
			f.Expect(f.nominator.Empty()).To(BeTrue())
			f.Expect(f.place(small)).To(Or(Equal(Active), Equal(Backoff)), "there may be room for it now")
			f.step(groupPatience)
			f.Expect(f.TendHeldGroups(logger)).To(BeEmpty(), "they end once")
		})
	}
}

// TestAGroupKeepsItsNominatedNodesWhileItsVictimsAreEvicted has a pod whose victims take longer to
// evict than groups wait for others.
func TestAGroupKeepsItsNominatedNodesWhileItsVictimsAreEvicted(t *testing.T) {
	for name, tree := range map[string]bool{"of one group": false, "of a tree": true} {
		t.Run(name, func(t *testing.T) {
			evictor := &ungater{newDoor("A", nil)}
			f, _ := withGroups(t, preEnqueueOf(evictor))
			w := &groupWorld{fixture: f}
			groupOfB := "g"
			if tree {
				w.serveTrees()
				groupOfB = "h"
				root := podgroup.CompositeGroup{Key: podgroup.CompositeKey(newPod("").Namespace, "root"), MinGroups: 2}
				w.TreeChanged(logger, w.groups.SetComposite(root))
				for _, group := range []string{"g", "h"} {
					w.groups.SetGroup(podgroup.Group{Key: w.keyOf(group), MinMember: 1, Parent: "root"})
				}
			} else {
				w.setGroup("g", 2)
			}
			a, b := newPod("a", w.inGroup("g")), newPod("b", w.inGroup(groupOfB))
			f.addNominated(a, b)
			evictor.status = refusal
			evictor.answer = func(pod *corev1.Pod) *fwk.Status {
				if pod.Name == "a" {
					return evictor.status
				}
				return nil
			}
			f.tryAll()
			f.Expect([]Place{f.place(a), f.place(b)}).To(Equal([]Place{Gated, Gated}))
			for range 3 {
				f.clock.Step(groupPatience)
				f.Expect(f.TendHeldGroups(logger)).To(BeEmpty())
			}
			f.Expect(f.nominator.NodeOf(b.UID)).To(Equal("n-b"))
			evictor.status = nil
			f.Ungate(logger, a.UID, "A")
			f.Expect(f.place(a)).To(Or(Equal(Active), Equal(Backoff)))
			f.Delete(logger, a)
			f.Done("single")
			f.tryAll()
			f.clock.Step(groupPatience)
			f.Expect(f.TendHeldGroups(logger)).To(HaveLen(1), "nothing is being evicted any more")
		})
	}
}

// TestAReplacementWaitsForNobodyForEver has a group of which one pod has succeeded, which nobody
// counts, when another one fails and is replaced.
func TestAReplacementWaitsForNobodyForEver(t *testing.T) {
	f, groups := withGroups(t)
	f.setGroup("g", 3)
	running := []*corev1.Pod{newPod("a", memberOf("g")), newPod("b", memberOf("g")), newPod("c", memberOf("g"))}
	for _, pod := range running {
		groups.SetAssigned(pod)
	}
	for _, pod := range running[:2] {
		groups.Forget(pod)
	}
	again := newPod("again", memberOf("g"))
	f.Add(logger, again)
	f.step(groupPatience - time.Second)
	f.Expect(f.place(again)).To(Equal(Gated))
	f.step(time.Second)
	f.Expect(f.place(again)).To(Equal(Active))
	popped, _ := f.popGroup()
	f.Expect(popped.Group.Needed).To(Equal(1))

	f.Add(logger, newPod("x", memberOf("h")))
	f.setGroup("h", 2)
	f.step(time.Hour)
	f.Expect(f.place(newPod("x"))).To(Equal(Gated), "a group that has never been complete waits for its pods")
}

// TestAGroupThatHeldRoomForNothingPauses has the pods of a group come back, released, after their
// barrier broke.
func TestAGroupThatHeldRoomForNothingPauses(t *testing.T) {
	for held, retried := range map[time.Duration][2]time.Duration{
		0:               {0, 2 * time.Second},
		5 * time.Minute: {5*time.Minute - 2*time.Second, 5*time.Minute + 2*time.Second},
		time.Hour:       {maxPause - 2*time.Second, maxPause + 2*time.Second},
	} {
		f, _ := withGroups(t)
		key := f.setGroup("g", 2)
		f.Add(logger, newPod("a", memberOf("g")))
		f.Add(logger, newPod("b", memberOf("g")))
		popped, _ := f.popGroup()
		infos := append(popped.Group.Others, popped.Pod)
		for _, info := range infos {
			f.Done(info.Pod.UID)
		}
		f.PauseGroup(key, held)
		for _, info := range infos {
			f.giveBack(info, nil, nil)
		}
		f.step(retried[0])
		f.Expect(f.Counts().ErrorBackoff).To(Equal(2), held.String())
		f.step(retried[1] - retried[0])
		f.Expect(f.Counts().Active).To(Equal(2), held.String())
		f.Expect(f.groupPauses).To(BeEmpty(), held.String())
	}
}

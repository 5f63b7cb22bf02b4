// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/mapkey"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/test/objects"
)

// withGroups gives a new fixture pod groups.
func withGroups(t *testing.T, change ...func(*ProfileSettings)) (*fixture, *podgroup.Registry) {
	f := newFixture(t, change...)
	groups := podgroup.NewRegistry()
	groups.SetServed(podgroup.SchedulerPlugins, func() bool { return true }, nil)
	f.groups = groups
	f.Reconfigure(logger, f.settings, sets.New("default")) // with the hint of groups
	return f, groups
}

// setGroup sets the group "<name>" in the namespace of the pods.
func (f *fixture) setGroup(name string, minMember int) podgroup.Key {
	key := podgroup.Key{Namespace: newPod("").Namespace, Name: name}
	f.groups.SetGroup(podgroup.Group{Key: key, MinMember: minMember})
	f.GroupChanged(logger, key)
	return key
}

func memberOf(group string) func(*corev1.Pod) { return label(podgroup.Label, group) }

// popGroup pops pods, and returns the names of those of the group in order.
func (f *fixture) popGroup() (popped Popped, names []string) {
	f.t.Helper()
	c := f.Counts()
	f.Expect(c.Active+c.Backoff).NotTo(BeZero(), "nothing to pop in %+v", c)
	popped = f.Pop(logger)
	names = []string{popped.Pod.Pod.Name}
	if popped.Group != nil {
		for _, other := range popped.Group.Others {
			names = append(names, other.Pod.Name)
		}
	}
	return popped, names
}

// refuseGroup gives the pods of a group back, the first one refused by plugin A.
func (f *fixture) refuseGroup(popped Popped) {
	f.t.Helper()
	f.giveBack(popped.Pod, []string{"A"}, nil)
	for _, other := range popped.Group.Others {
		f.giveBack(other, []string{"A"}, nil)
	}
}

func TestAGroupWaitsUntilItIsComplete(t *testing.T) {
	f, groups := withGroups(t)
	a, b, c := newPod("a", memberOf("g")), newPod("b", memberOf("g"), priority(1)), newPod("c", memberOf("g"))
	f.Add(logger, a)
	f.Expect(f.place(a)).To(Equal(Gated), "there is no group")
	f.Add(logger, b)
	key := f.setGroup("g", 3)
	f.Expect(f.place(b)).To(Equal(Gated), "two of three")
	f.Add(logger, newPod("alone"))
	f.Add(logger, newPod("other", memberOf("h")))
	f.Add(logger, newPod("foreign", memberOf("g"), func(pod *corev1.Pod) { pod.Namespace = "elsewhere" }))
	f.Expect(f.Counts().Active).To(Equal(1))
	f.Expect(f.pop().Pod.Name).To(Equal("alone"))

	f.Add(logger, c)
	f.Expect(f.Counts().Active).To(Equal(3))
	popped, names := f.popGroup()
	f.Expect(names).To(Equal([]string{"b", "a", "c"}), "the order of the queue sort")
	f.Expect(popped.Group.Key).To(Equal(key))
	f.Expect(popped.Group.Needed).To(Equal(3))

	for _, pod := range []*corev1.Pod{a, b} {
		f.Done(pod.UID)
		groups.SetAssumed(pod)
	}
	f.Done(c.UID)
	f.Update(logger, nil, c)
	_, names = f.popGroup()
	f.Expect(names).To(Equal([]string{"c"}), "two of three have a node")
}

func TestPendingGroups(t *testing.T) {
	f, _ := withGroups(t)
	expect := func(when string, incomplete, complete int) {
		t.Helper()
		gotIncomplete, gotComplete := f.PendingGroups()
		f.Expect([]int{gotIncomplete, gotComplete}).To(Equal([]int{incomplete, complete}), when)
	}
	expect("no group has pods", 0, 0)
	f.setGroup("g", 2)
	f.setGroup("h", 1)
	f.Add(logger, newPod("alone", priority(2)))
	a, b := newPod("a", memberOf("g"), priority(1)), newPod("b", memberOf("g"), priority(1))
	f.Add(logger, a)
	expect("one pod of two", 1, 0)
	f.Add(logger, b)
	f.Add(logger, newPod("c", memberOf("h")))
	f.Add(logger, newPod("d", memberOf("no-group")))
	expect("two groups have enough", 1, 2)
	f.Expect(f.pop().Pod.Name).To(Equal("alone"))
	popped, names := f.popGroup()
	f.Expect(names).To(ConsistOf("a", "b"))
	expect("one is in flight", 1, 1)
	f.refuseGroup(popped)
	expect("it was refused", 1, 2)
	f.Delete(logger, a)
	expect("a pod is deleted, and the other one is not looked at before it is popped", 1, 2)
	f.Delete(logger, b)
	expect("the group has no pods", 1, 1)
}

func TestAGroupIsRetriedTogether(t *testing.T) {
	f, _ := withGroups(t)
	f.setGroup("g", 2)
	for _, name := range []string{"a", "b", "c"} {
		f.Add(logger, newPod(name, memberOf("g")))
	}
	popped, names := f.popGroup()
	f.Expect(names).To(ConsistOf("a", "b", "c"))
	f.refuseGroup(popped)
	f.Expect(f.Counts().Unschedulable).To(Equal(3))
	f.Expect(f.Counts().Active + f.Counts().Backoff).To(BeZero())

	// A pod that joins takes the others along.
	f.Add(logger, newPod("d", memberOf("g")))
	popped, names = f.popGroup()
	f.Expect(names).To(ConsistOf("a", "b", "c", "d"))
	f.Expect(popped.Pod.Pod.Name).To(Equal("d"))
	f.refuseGroup(popped)

	// So does one that an event may help.
	f.step(time.Minute)
	f.event(nodeAdded)
	_, names = f.popGroup()
	f.Expect(names).To(ConsistOf("a", "b", "c", "d"))
}

func TestAGroupThatShrinksWaitsAgain(t *testing.T) {
	f, _ := withGroups(t)
	f.setGroup("g", 2)
	a, b := newPod("a", memberOf("g")), newPod("b", memberOf("g"))
	f.Add(logger, a)
	f.Add(logger, b)
	f.Delete(logger, b)
	f.Add(logger, newPod("alone"))
	f.Expect(f.pop().Pod.Name).To(Equal("alone"))
	f.Expect(f.place(a)).To(Equal(Gated), "the queue looks again before it pops")

	f.setGroup("g", 1)
	f.Expect(f.place(a)).To(Equal(Active))
}

func TestAGroupIsRetriedIfItNeedsFewerPods(t *testing.T) {
	f, _ := withGroups(t)
	f.setGroup("g", 3)
	for _, name := range []string{"a", "b", "c"} {
		f.Add(logger, newPod(name, memberOf("g")))
	}
	popped, _ := f.popGroup()
	f.refuseGroup(popped)
	f.step(time.Minute)
	f.setGroup("g", 4)
	f.setGroup("g", 3)
	f.Expect(f.Counts().Unschedulable).To(Equal(3))
	f.setGroup("g", 2)
	f.Expect(f.Counts().Active).To(Equal(3))
}

// TestAGroupThatChangesInFlightIsRetried covers changes of a group while it is tried.
func TestAGroupThatChangesInFlightIsRetried(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(f *fixture, key podgroup.Key)
		retried bool
	}{
		"nothing":         {func(*fixture, podgroup.Key) {}, false},
		"more are needed": {func(f *fixture, key podgroup.Key) { f.setGroup("g", 3); f.setGroup("g", 2) }, false},
		"it is retried":   {func(f *fixture, key podgroup.Key) { f.RetryGroup(logger, key) }, true},
		"a tree of groups changes": {func(f *fixture, key podgroup.Key) {
			f.TreeChanged(logger, []podgroup.Key{key})
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := withGroups(t)
			key := f.setGroup("g", 2)
			f.Add(logger, newPod("a", memberOf("g")))
			f.Add(logger, newPod("b", memberOf("g")))
			popped, _ := f.popGroup()
			test.change(f, key)
			f.refuseGroup(popped)
			if !test.retried {
				f.Expect(f.Counts().Unschedulable).To(Equal(2))
				return
			}
			f.Expect(f.Counts().Backoff).To(Equal(2))
			f.step(time.Minute)
			popped, _ = f.popGroup()
			f.refuseGroup(popped)
			f.Expect(f.Counts().Unschedulable).To(Equal(2), "the change counts once")
		})
	}
}

// TestTheLastPodOfAGroupThatComesBack covers a pod whose return must not make the queue forget its
// group.
func TestTheLastPodOfAGroupThatComesBack(t *testing.T) {
	f, _ := withGroups(t)
	f.setGroup("g", 2)
	f.Add(logger, newPod("a", memberOf("g")))
	f.Add(logger, newPod("b", memberOf("g")))
	popped, _ := f.popGroup()
	f.Delete(logger, popped.Pod.Pod)
	_, err := f.Requeue(logger, popped.Pod, nil)
	f.Expect(err).To(MatchError(ErrGone))
	last := f.giveBack(popped.Group.Others[0], []string{"A"}, nil)
	f.Expect(f.place(last)).To(Equal(Unschedulable))
	f.step(time.Minute)
	f.setGroup("g", 1)
	f.Expect(f.place(last)).To(Equal(Active))
}

func TestAGroupIsRetriedWhenANodeGetsTheLabelThatItRequires(t *testing.T) {
	relabeled := func(key, before, after string) func(f *fixture) {
		return func(f *fixture) {
			oldNode := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{key: before}}}
			newNode := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{key: after}}}
			f.Move(logger, nodeRelabeled, oldNode, newNode, nil)
		}
	}
	for name, test := range map[string]struct {
		event    func(f *fixture)
		required string
		retried  bool
	}{
		"another value":                   {event: relabeled("rack", "a", "b"), required: "rack", retried: true},
		"the same value":                  {event: relabeled("rack", "a", "a"), required: "rack"},
		"another label":                   {event: relabeled("zone", "a", "b"), required: "rack"},
		"a label that another one needed": {event: relabeled("rack", "a", "b"), required: "zone"},
		"the label was added": {required: "rack", retried: true, event: func(f *fixture) {
			newNode := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"rack": ""}}}
			f.Move(logger, nodeRelabeled, &corev1.Node{}, newNode, nil)
		}},
	} {
		for _, inFlight := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, in flight: %v", name, inFlight), func(t *testing.T) {
				f, groups := withGroups(t)
				key := podgroup.Key{Namespace: newPod("").Namespace, Name: "g"}
				groups.SetGroup(podgroup.Group{Key: key, MinMember: 2,
					Topology: podgroup.Topology{Required: test.required}})
				members := []*corev1.Pod{newPod("a", memberOf("g")), newPod("b", memberOf("g"))}
				for _, pod := range members {
					f.Add(logger, pod)
				}
				other := newPod("other")
				popped, names := f.popGroup()
				f.Expect(names).To(HaveLen(2))
				f.Add(logger, other)
				f.reject("A")
				if inFlight {
					test.event(f)
				}
				f.giveBack(popped.Pod, []string{"A", podgroup.TopologyGate}, nil)
				for _, pod := range popped.Group.Others {
					f.giveBack(pod, []string{"A", podgroup.TopologyGate}, nil)
				}
				if !inFlight {
					test.event(f)
				}
				want := Unschedulable
				if test.retried {
					want = Backoff
				}
				for _, pod := range members {
					f.Expect(f.place(pod)).To(Equal(want))
				}
				f.Expect(f.place(other)).To(Equal(Unschedulable), "it has no group")
			})
		}
	}
}

// TestWaitingGroupsThatRequireATopologyAreAlike has groups that wait for the same things, but for
// changes of the label that each of them requires.
func TestWaitingGroupsThatRequireATopologyAreAlike(t *testing.T) {
	calls := 0
	f, groups := withGroups(t, func(p *ProfileSettings) {
		p.Hints[nodeAdded] = []Hint{
			{Plugin: "A", Fn: func(klog.Logger, *corev1.Pod, any, any) (fwk.QueueingHint, error) {
				calls++
				return fwk.QueueSkip, nil
			}}}
		p.HintKeys = map[string]HintKey{"A": {Write: func(*mapkey.Writer, *corev1.Pod) bool { return true }}}
	})
	labels := []string{"rack", "zone"}
	var pods []*corev1.Pod
	for i := range 20 {
		name := fmt.Sprintf("g%d", i)
		groups.SetGroup(podgroup.Group{
			Key: podgroup.Key{Namespace: newPod("").Namespace, Name: name}, MinMember: 1,
			Topology: podgroup.Topology{Required: labels[i%2]},
		})
		pods = append(pods, newPod(name, memberOf(name)))
		f.Add(logger, pods[i])
		f.reject("A", podgroup.TopologyGate)
	}
	f.event(nodeAdded)
	f.Expect(calls).To(Equal(1))
	node := func(rack string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"rack": rack}}}
	}
	f.Move(logger, nodeRelabeled, node("a"), node("b"), nil)
	var waiting, want []string
	for i, pod := range pods {
		if f.place(pod) == Unschedulable {
			waiting = append(waiting, pod.Name)
		}
		if labels[i%2] == "zone" {
			want = append(want, pod.Name)
		}
	}
	f.Expect(waiting).To(Equal(want))
}

func TestGatedPodsDoNotCount(t *testing.T) {
	gate := newDoor("Gate", fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "closed"))
	f, _ := withGroups(t, preEnqueueOf(gate))
	f.setGroup("g", 2)
	a, b := newPod("a", memberOf("g")), newPod("b", memberOf("g"))
	f.Add(logger, a)
	f.Add(logger, b)
	f.Expect(f.Counts().Gated).To(Equal(2))
	gate.status = nil
	f.Ungate(logger, a.UID, "Gate")
	f.Expect(f.place(a)).To(Equal(Gated))
	f.Ungate(logger, b.UID, "Gate")
	_, names := f.popGroup()
	f.Expect(names).To(ConsistOf("a", "b"))
}

// TestAPodThatTerminatesIsNotReady has a member with a finalizer, as those of a Job, that is
// deleted while it waits: the others must not be tried without it, and it waits for nobody.
func TestAPodThatTerminatesIsNotReady(t *testing.T) {
	f, _ := withGroups(t)
	f.setGroup("g", 3)
	a, b := newPod("a", memberOf("g")), newPod("b", memberOf("g"))
	f.Add(logger, a)
	f.Add(logger, b)
	terminating := objects.Edited(a, func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{} })
	f.Update(logger, a, terminating)
	f.Add(logger, newPod("c", memberOf("g")))
	f.Expect(f.place(b)).To(Equal(Gated))
	popped, names := f.popGroup()
	f.Expect(names).To(Equal([]string{"a"}))
	f.Expect(popped.Group).To(BeNil(), "the attempt releases it")
}

func TestALabelThatChangesMovesThePodToAnotherGroup(t *testing.T) {
	f, _ := withGroups(t)
	f.setGroup("g", 2)
	f.setGroup("h", 2)
	a, b := newPod("a", memberOf("g")), newPod("b", memberOf("h"))
	f.Add(logger, a)
	f.Add(logger, b)
	f.Expect(f.Counts().Gated).To(Equal(2))
	f.Update(logger, a, objects.Edited(a, memberOf("h")))
	_, names := f.popGroup()
	f.Expect(names).To(ConsistOf("a", "b"))

	c := newPod("c", memberOf("g"))
	f.Add(logger, c)
	f.Expect(f.place(c)).To(Equal(Gated))
	f.Update(logger, c, objects.Edited(c, func(pod *corev1.Pod) { delete(pod.Labels, podgroup.Label) }))
	popped, names := f.popGroup()
	f.Expect(names).To(Equal([]string{"c"}))
	f.Expect(popped.Group).To(BeNil())
}

func TestTheLabelMeansNothing(t *testing.T) {
	unserved := podgroup.NewRegistry()
	served := podgroup.NewRegistry()
	served.SetServed(podgroup.SchedulerPlugins, func() bool { return true }, nil)
	for name, f := range map[string]*fixture{
		"without groups":                            {Queue: New(Config{})},
		"where PodGroups are not served":            {Queue: New(Config{Groups: unserved})},
		"for a profile whose plugin handles groups": {Queue: New(Config{Groups: served})},
	} {
		t.Run(name, func(t *testing.T) {
			f.WithT, f.t = NewWithT(t), t
			f.Reconfigure(logger, &Settings{Profiles: map[string]*ProfileSettings{
				"default": profileOf(func(p *ProfileSettings) { p.IgnorePodGroups = f.groups == served }),
			}}, nil)
			f.Add(logger, newPod("a", memberOf("g")))
			f.Add(logger, newPod("b", memberOf("g")))
			popped, _ := f.popGroup()
			f.Expect(popped.Group).To(BeNil())
		})
	}
}

func TestGroupsOfKubernetes(t *testing.T) {
	f, groups := withGroups(t, func(p *ProfileSettings) { p.IgnorePodGroups = true })
	groups.SetServed(podgroup.Kubernetes, func() bool { return true }, nil)
	native := func(pod *corev1.Pod) {
		memberOf("h")(pod) // which has no meaning here
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("g")}
	}
	a, b := newPod("a", native), newPod("b", native)
	f.Add(logger, a)
	f.Add(logger, b)
	f.setGroup("g", 1)
	f.Expect(f.Counts().Gated).To(Equal(2), "the group of this name is that of scheduler-plugins")
	f.Add(logger, newPod("c", memberOf("g")))
	_, names := f.popGroup()
	f.Expect(names).To(Equal([]string{"c"}), "a plugin of the profile takes care of these")

	key := podgroup.KeyOf(a)
	groups.SetGroup(podgroup.Group{Key: key, MinMember: 1, OneByOne: true})
	f.GroupChanged(logger, key)
	for _, want := range []string{"a", "b"} {
		popped, names := f.popGroup()
		f.Expect(names).To(Equal([]string{want}))
		f.Expect(popped.Group).To(BeNil())
		f.giveBack(popped.Pod, []string{"A"}, nil)
	}
	groups.SetGroup(podgroup.Group{Key: key, MinMember: 2})
	f.RetryGroup(logger, key)
	popped, names := f.popGroup()
	f.Expect(names).To(Equal([]string{"a", "b"}))
	f.Expect(popped.Group.Key).To(Equal(key))
}

func TestAGroupIsRetriedAtATime(t *testing.T) {
	f, _ := withGroups(t)
	key := f.setGroup("g", 2)
	f.Add(logger, newPod("a", memberOf("g")))
	f.Add(logger, newPod("b", memberOf("g")))
	reject := func(popped Popped) {
		f.giveBack(popped.Pod, []string{"A"}, nil)
		for _, other := range popped.Group.Others {
			f.giveBack(other, []string{"A"}, nil)
		}
	}
	popped, _ := f.popGroup()
	f.RetryGroupAt(key, f.clock.Now().Add(time.Minute))
	reject(popped)
	f.step(59 * time.Second)
	f.Expect(f.Counts().Unschedulable).To(Equal(2))
	f.step(time.Second)
	popped, names := f.popGroup()
	f.Expect(names).To(ConsistOf("a", "b"))

	f.RetryGroupAt(key, f.clock.Now().Add(time.Minute))
	f.step(2 * time.Minute)
	reject(popped)
	f.Expect(f.Counts().Unschedulable).To(Equal(2), "they were being tried")
	f.step(time.Second)
	popped, _ = f.popGroup()
	reject(popped)
	f.step(time.Hour)
	f.Expect(f.Counts().Unschedulable).To(Equal(2), "they were retried once")
}

func TestPodsOfAnotherSchedulerNameDoNotCount(t *testing.T) {
	f, _ := withGroups(t)
	f.settings = &Settings{Profiles: map[string]*ProfileSettings{"default": f.settings.Profiles["default"],
		"gpu": profileOf()}}
	f.Reconfigure(logger, f.settings, nil)
	f.setGroup("g", 2)
	f.Add(logger, newPod("a", memberOf("g")))
	f.Add(logger, newPod("b", memberOf("g"), scheduler("gpu")))
	f.Expect(f.Counts().Gated).To(Equal(2))
}

func TestAReloadKeepsGroupsTogether(t *testing.T) {
	f, _ := withGroups(t)
	f.setGroup("g", 3)
	for _, name := range []string{"a", "b", "c"} {
		f.Add(logger, newPod(name, memberOf("g")))
	}
	popped, _ := f.popGroup()
	f.refuseGroup(popped)
	f.Reconfigure(logger, &Settings{Profiles: map[string]*ProfileSettings{"default": profileOf()}}, nil)
	_, names := f.popGroup()
	f.Expect(names).To(ConsistOf("a", "b", "c"))
}

// TestAGroupIsPoppedInTheMiddleOfAReload has a reload that has renewed no pod yet.
func TestAGroupIsPoppedInTheMiddleOfAReload(t *testing.T) {
	f, _ := withGroups(t)
	f.setGroup("g", 3)
	for _, name := range []string{"a", "b", "c"} {
		f.Add(logger, newPod(name, memberOf("g")))
	}
	r := f.newReload(logger, &Settings{Profiles: map[string]*ProfileSettings{"default": profileOf()}}, nil)
	r.replaceRules()
	popped, names := f.popGroup()
	f.Expect(names).To(ConsistOf("a", "b", "c"))
	f.Expect(popped.Group.Needed).To(Equal(3))
	f.Expect(f.Counts().Gated).To(BeZero())
	for r.runTurn() {
	}
	r.end()
}

// TestAHalfPlacedGroupIsCompletedFirst has a group that lost a pod when it was bound, or when the
// leader before died, and older pods of the same priority.
func TestAHalfPlacedGroupIsCompletedFirst(t *testing.T) {
	for name, test := range map[string]struct {
		change func(f *fixture)
		want   []string
	}{
		"it comes first": {func(*fixture) {}, []string{"urgent", "last", "old", "other"}},
		"it has all it needs": {func(f *fixture) { f.setGroup("g", 2) },
			[]string{"urgent", "old", "other", "last"}},
		"its other pods are gone": {func(f *fixture) { f.setGroup("g", 1); f.lose("a", "b") },
			[]string{"urgent", "old", "other", "last"}},
		"a pod comes back": {func(f *fixture) { f.lose("a", "b"); f.win("a", "b") },
			[]string{"urgent", "last", "old", "other"}},
		"a custom order": {func(f *fixture) {
			f.Reconfigure(logger, &Settings{Less: f.rules.less, Order: "Mine", Profiles: f.settings.Profiles}, nil)
		}, []string{"urgent", "old", "other", "last"}},
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := withGroups(t)
			f.setGroup("g", 3)
			f.setGroup("h", 1)
			f.win("a", "b")
			for _, pod := range []*corev1.Pod{
				newPod("old"), newPod("other", memberOf("h")), newPod("last", memberOf("g")),
				newPod("urgent", priority(1)),
			} {
				f.Add(logger, pod)
				f.clock.Step(time.Second)
			}
			test.change(f)
			var popped []string
			for range test.want {
				popped = append(popped, f.pop().Pod.Name)
			}
			f.Expect(popped).To(Equal(test.want))
		})
	}
}

// win and lose report that pods of group g get a node, and lose it.
func (f *fixture) win(names ...string) {
	for _, name := range names {
		f.GroupChanged(logger, f.groups.SetAssigned(newPod(name, memberOf("g"))))
	}
}

func (f *fixture) lose(names ...string) {
	for _, name := range names {
		f.GroupChanged(logger, f.groups.Forget(newPod(name)))
	}
}

// TestRandomChangesOfGroups makes random calls, and compares the counts of the queue with a new
// count after each. In the end the gauges, which all queues share, must be what they were.
func TestRandomChangesOfGroups(t *testing.T) {
	queued := gathered(t, "scheduler_queued_entities")
	t.Run("seeds", func(t *testing.T) {
		for seed := range uint64(200) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				w := newGroupWorld(t, seed)
				w.run(400)
				w.Close()
			})
			t.Run(fmt.Sprint("trees ", seed), func(t *testing.T) {
				t.Parallel()
				w := newTreeWorld(t, seed)
				w.run(400)
				w.Close()
			})
		}
	})
	if left := since(t, "scheduler_queued_entities", queued); len(left) > 0 {
		t.Errorf("entities are left in closed queues: %v", left)
	}
}

type groupWorld struct {
	*fixture
	*rand.Rand
	gate   *door
	pods   []*corev1.Pod
	flying []*schedframework.QueuedPodInfo
	made   int
	// trees has the trees of groups, nil if there are none.
	trees *treeModel
}

func newGroupWorld(t *testing.T, seed uint64) *groupWorld {
	gate := newDoor("Gate", nil)
	f, _ := withGroups(t, preEnqueueOf(gate))
	return &groupWorld{fixture: f, Rand: rand.New(rand.NewPCG(seed, 1)), gate: gate}
}

// keyOf returns the key of a group, and inGroup makes a pod a member of it.
func (w *groupWorld) keyOf(group string) podgroup.Key {
	key := podgroup.Key{Namespace: newPod("").Namespace, Name: group}
	if w.trees != nil {
		key.Source = podgroup.Kubernetes
	}
	return key
}

func (w *groupWorld) inGroup(group string) func(*corev1.Pod) {
	if w.trees == nil {
		return memberOf(group)
	}
	return func(pod *corev1.Pod) {
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
	}
}

func (w *groupWorld) run(steps int) {
	for range steps {
		w.act()
		w.check()
	}
}

// act makes one random call.
func (w *groupWorld) act() {
	group := fmt.Sprintf("g%d", w.IntN(3))
	if w.trees != nil && w.IntN(8) == 0 {
		w.changeTree()
		return
	}
	switch w.IntN(12) {
	case 0, 1, 2:
		w.made++
		pod := newPod(fmt.Sprintf("p%d", w.made), w.inGroup(group), priority(w.Int32N(3)))
		w.pods = append(w.pods, pod)
		w.Add(logger, pod)
	case 3:
		next := podgroup.Group{Key: w.keyOf(group), MinMember: 1 + w.IntN(4)}
		if w.trees != nil {
			next.Parent = w.parent()
		}
		w.groups.SetGroup(next)
		w.GroupChanged(logger, next.Key)
	case 4:
		w.groups.DeleteGroup(w.keyOf(group))
		w.GroupChanged(logger, w.keyOf(group))
	case 5:
		if c := w.Counts(); c.Active+c.Backoff > 0 && len(w.flying) == 0 {
			w.pop()
		}
	case 6:
		w.land()
	case 7:
		w.event(nodeAdded)
	case 8:
		w.step(time.Duration(w.IntN(12)) * time.Second)
	case 9:
		w.someone(func(i int) {
			w.Delete(logger, w.pods[i])
			w.GroupChanged(logger, w.groups.Forget(w.pods[i]))
			w.pods = slices.Delete(w.pods, i, i+1)
		})
	case 10:
		w.someone(func(i int) {
			was := w.pods[i]
			w.GroupChanged(logger, w.groups.Forget(was))
			w.pods[i] = objects.Edited(was, w.inGroup(group))
			w.Update(logger, was, w.pods[i])
		})
	case 11:
		w.Reconfigure(logger, w.settings(), nil)
	}
}

// settings returns random settings: new ones, with a canary or without, or another share of the
// present canary.
func (w *groupWorld) settings() *Settings {
	present := w.currentRules()
	if canary, divided := present.splits["default"]; divided && w.IntN(2) == 0 {
		canary.Share = w.IntN(Whole + 1)
		return &Settings{Profiles: map[string]*ProfileSettings{"default": present.profiles["default"].settings},
			Canaries: map[string]Canary{"default": canary}}
	}
	w.gate.status = nil
	if w.IntN(2) == 0 {
		w.gate.status = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "closed")
	}
	s := &Settings{Profiles: map[string]*ProfileSettings{"default": profileOf(preEnqueueOf(w.gate))}}
	if w.IntN(2) == 0 {
		s.Canaries = map[string]Canary{"default": {Settings: profileOf(preEnqueueOf(w.gate)), Share: w.IntN(Whole + 1),
			Salt: fmt.Sprint(w.made)}}
	}
	return s
}

func (w *groupWorld) someone(do func(i int)) {
	if len(w.pods) > 0 {
		do(w.IntN(len(w.pods)))
	}
}

// pop pops a group, which must be complete. It does not block: the pods that could be popped may
// turn out to be incomplete.
func (w *groupWorld) pop() {
	w.Add(logger, newPod(fmt.Sprintf("single%d", w.made), priority(-1)))
	w.made++
	popped := w.Pop(logger)
	if popped.Group == nil {
		w.Expect(podgroup.KeyOf(popped.Pod.Pod)).To(BeZero())
		w.Done(popped.Pod.Pod.UID)
		return
	}
	w.flying = append([]*schedframework.QueuedPodInfo{popped.Pod}, popped.Group.Others...)
	rules := w.currentRules()
	decides := rules.profiles["default"].settings
	if canary, divided := rules.splits["default"]; divided && canary.Takes(w.groups.OwnerOf(popped.Pod.Pod)) {
		decides = canary.Settings
	}
	w.Expect(popped.Settings).To(BeIdenticalTo(decides), "the group was popped under another profile's settings")
	if popped.Group.Tree != nil {
		w.checkTree(popped.Group)
		return
	}
	needed, known := w.groups.Needed(popped.Group.Key)
	w.Expect(known).To(BeTrue())
	w.Expect(popped.Group.Needed).To(Equal(needed))
	w.Expect(1 + len(popped.Group.Others)).To(BeNumerically(">=", needed))
}

// land ends the cycle of the pods in flight.
func (w *groupWorld) land() {
	how := w.IntN(3)
	for _, info := range w.flying {
		switch how {
		case 0:
			w.Done(info.Pod.UID)
			w.groups.SetAssumed(info.Pod)
			w.GroupChanged(logger, podgroup.KeyOf(info.Pod))
			w.pods = slices.DeleteFunc(w.pods, func(pod *corev1.Pod) bool { return pod.UID == info.Pod.UID })
		case 1:
			info.UnschedulablePlugins, info.PendingPlugins = sets.New("A"), nil
			_, _ = w.Requeue(logger, info, nominateTo("n0"))
		case 2:
			info.ClearRejectorPlugins()
			_, _ = w.Requeue(logger, info, nil)
		}
	}
	w.flying = nil
}

// check compares what the queue knows of its groups with its pods.
func (w *groupWorld) check() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Expect(w.checkLocked()).To(Succeed())
	type count struct{ pods, ready, held int }
	want := map[memberKey]count{}
	for _, e := range w.Queue.pods {
		key := podgroup.KeyOf(e.pod)
		if key == (podgroup.Key{}) {
			w.Expect(e.member.of).To(BeNil())
			continue
		}
		k := memberKey{Key: key, schedulerName: "default"}
		c := want[k]
		c.pods++
		held := e.place == Gated && e.info.GatingPlugin == podgroup.Gate
		if held {
			c.held++
		}
		if held || e.place != InFlight && e.place != Gated {
			c.ready++
		}
		want[k] = c
	}
	got := map[memberKey]count{}
	for k, m := range w.members {
		got[k] = count{pods: len(m.entries), ready: m.ready, held: m.held}
		if needed, known := w.groups.Needed(k.Key); known && m.held > 0 {
			w.Expect(m.ready >= needed && w.completeLocked(k.Key, nil)).
				To(BeFalse(), "%v is held although it is complete", k)
		}
	}
	w.Expect(got).To(Equal(want))
	for _, e := range w.Queue.pods {
		w.Expect(e.outdatedLocked()).To(BeFalse(), "a pod waits for another profile than its own")
		if m := e.member.of; m != nil {
			placed, missing := w.groups.Placed(m.Key)
			w.Expect(m.half == (placed > 0 && missing > 0) && e.member.half == m.half).
				To(BeTrue(), "whether the group is half placed has changed")
		}
	}
	for _, h := range []*podHeap{&w.active, &w.Queue.backoff, &w.errorBackoff} {
		for i := 1; i < h.Len(); i++ {
			w.Expect(h.Less(i, (i-1)/2)).To(BeFalse(), "the heap is not in order")
		}
	}
	for key := range w.holding {
		w.Expect(w.members).To(ContainElement(BeIdenticalTo(key)), "the queue looks at a group without pods")
	}
	for _, e := range w.Queue.pods {
		if e.member.held && e.place == Gated && e.info.GatingPlugin == podgroup.Gate && !e.outdatedLocked() {
			w.Expect(e.refusal).To(Equal(e.member.of.awaited), "what the group waits for has changed")
		}
		if m := e.member.of; e.member.held && w.nominator.NodeOf(e.pod.UID) != "" {
			w.Expect(w.holding.Has(m) && m.tendAt.Sub(w.clock.Now()) <= groupPatience).
				To(BeTrue(), "the pod stays nominated")
		}
	}
}

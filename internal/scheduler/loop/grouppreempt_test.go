// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/test/objects"
)

// withPriority gives a pod a priority.
func withPriority(priority int32) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Priority = &priority }
}

// addRunning adds a pod that runs on a node.
func (w *groupWorld) addRunning(name, node, cpu string, priority int32, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := objects.Pod("default", name, "mine", cpu, "1Mi")
	pod.UID, pod.Spec.NodeName, pod.Spec.Priority = types.UID(name), node, &priority
	for _, change := range changes {
		change(pod)
	}
	w.Expect(w.objects.Put(pod)).To(Succeed())
	w.Expect(w.cluster.Cache.AddPod(logr.Discard(), pod)).To(Succeed())
	return pod
}

// addWholeGroup adds a group that is evicted as a whole: pods v-n1, v-n2 ... with these priorities,
// on nodes n1, n2 ... that they fill. changes are made to the last pod.
func (w *groupWorld) addWholeGroup(priorities []int32, changes ...func(*corev1.Pod)) {
	w.cluster.Groups.SetGroup(podgroup.Group{Key: podgroup.Key{Namespace: "default", Name: "victims"},
		MinMember: len(priorities), EvictedWhole: true})
	for i, priority := range priorities {
		node, of := fmt.Sprint("n", i+1), []func(*corev1.Pod){objects.MemberOf("victims")}
		if i == len(priorities)-1 {
			of = append(of, changes...)
		}
		w.addNode(node, "1")
		w.addRunning("v-"+node, node, "1", priority, of...)
	}
}

// addMembers queues pods of the group that request a CPU each and have the priority 100.
func (w *groupWorld) addMembers(n int, changes ...func(*corev1.Pod)) {
	for i := range n {
		w.addPod(fmt.Sprintf("m%d", i), "1", append([]func(*corev1.Pod){withPriority(100)}, changes...)...)
	}
}

// evicted returns the names of the pods that are evicted, as many as the reason of the group says.
func (w *groupWorld) evicted() []string { return w.evictedFor("m0") }

// evictedFor is evicted for the group of a pod. The cache learns that the pods are being deleted.
func (w *groupWorld) evictedFor(pod string) (names []string) {
	n := 0
	if _, message, ok := strings.Cut(w.reasons[pod], "evicting "); ok {
		_, err := fmt.Sscan(message, &n)
		w.Expect(err).NotTo(HaveOccurred())
	}
	w.Eventually(w.cluster.Requests.Deleted).Should(Equal(n))
	for _, write := range w.cluster.Requests.Take() {
		if name, deleted := strings.CutPrefix(write, "delete pods default/"); deleted {
			names = append(names, name)
			w.terminate(name, 0)
		}
	}
	return names
}

// gone removes pods that were evicted.
func (w *groupWorld) gone(names ...string) {
	for _, name := range names {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
		w.Expect(w.cluster.Cache.RemovePod(logr.Discard(), pod)).To(Succeed())
		w.Expect(w.objects.Remove(pod)).To(Succeed())
	}
}

// nominated returns how many members are nominated, by node.
func (w *groupWorld) nominated() map[string]int {
	nodes := map[string]int{}
	for _, n := range w.cluster.Queue.Nominator().Dump() {
		nodes[n.Node]++
	}
	return nodes
}

// retry queues the pods of the group again, as the deletion of a victim does. They are gated until
// the evictions for them have ended.
func (w *groupWorld) retry() {
	w.Eventually(func() int {
		pods := map[string]*corev1.Pod{}
		for _, state := range w.cluster.Queue.Dump() {
			pods[state.Pod.Name] = state.Pod
		}
		w.cluster.Queue.Activate(logr.Discard(), pods)
		return w.cluster.Queue.Counts().Gated
	}).Should(BeZero())
}

func TestAGroupPreempts(t *testing.T) {
	for name, test := range map[string]struct {
		cluster   func(w *groupWorld)
		members   int
		needed    int
		change    func(*corev1.Pod)
		evicted   []string
		nominated map[string]int
		message   string
	}{
		"all nodes are full": {
			cluster: func(w *groupWorld) {
				for _, n := range []string{"n1", "n2"} {
					w.addNode(n, "2")
					w.addRunning("low-"+n, n, "2", 10)
				}
			},
			members: 4, needed: 4,
			evicted: []string{"low-n1", "low-n2"}, nominated: map[string]int{"n1": 2, "n2": 2},
			message: "evicting 2 pods",
		},
		"some members fit without evictions": {
			cluster: func(w *groupWorld) {
				w.addNode("n1", "2")
				w.addNode("n2", "2")
				w.addRunning("low", "n1", "2", 10)
			},
			members: 4, needed: 4,
			evicted: []string{"low"}, nominated: map[string]int{"n1": 2, "n2": 2},
		},
		"a victim that the next one makes needless": {
			cluster: func(w *groupWorld) {
				w.addNode("n1", "2")
				w.addNode("n2", "2")
				w.addRunning("large", "n1", "2", 10)
				w.addRunning("small", "n2", "1", 5)
			},
			members: 3, needed: 3,
			evicted: []string{"large"}, nominated: map[string]int{"n1": 2, "n2": 1},
		},
		"members that were taken back take no room": {
			cluster: func(w *groupWorld) {
				w.addNode("n1", "2")
				w.addNode("n2", "1", "only", "m2")
				w.addNode("n3", "1")
				w.addRunning("low-n2", "n2", "1", 10)
			},
			members: 3, needed: 3,
			change: func(pod *corev1.Pod) {
				if pod.Name == "m2" {
					pod.Spec.NodeSelector = map[string]string{"only": "m2"}
				}
			},
			evicted: []string{"low-n2"},
		},
		"pods of the lowest priority": {
			cluster: func(w *groupWorld) {
				for i, n := range []string{"n1", "n2", "n3"} {
					w.addNode(n, "2")
					w.addRunning("victim-"+n, n, "2", int32(30-10*i))
				}
			},
			members: 2, needed: 2,
			evicted: []string{"victim-n3"}, nominated: map[string]int{"n3": 2},
		},
		"more pods than needed": {
			cluster: func(w *groupWorld) {
				w.addNode("n1", "4")
				for i := range 3 {
					w.addRunning(fmt.Sprint("low-", i), "n1", "1", int32(10+i))
				}
				w.addRunning("high", "n1", "1", 100)
			},
			members: 4, needed: 1,
			evicted: []string{"low-0", "low-1", "low-2"}, nominated: map[string]int{"n1": 3},
		},
		"it would not fit in any case": {
			cluster: func(w *groupWorld) {
				w.addNode("n1", "2")
				w.addRunning("low", "n1", "1", 10)
			},
			members: 3, needed: 3,
		},
		"resources do not suffice for different reasons": {
			cluster: func(w *groupWorld) {
				w.addNode("n1", "4")
				w.addNode("n2", "4", "other", "label")
				w.addRunning("low-1", "n1", "4", 10)
				w.addRunning("low-2", "n2", "4", 10)
			},
			members: 6, needed: 6,
			change: func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"other": "label"} },
		},
		"victims of the same priority": {
			cluster: func(w *groupWorld) {
				w.addNode("n1", "2")
				w.addRunning("same", "n1", "2", 100)
			},
			members: 2, needed: 2,
		},
		"a member may not preempt": {
			cluster: func(w *groupWorld) {
				w.addNode("n1", "2")
				w.addRunning("low", "n1", "2", 10)
			},
			members: 2, needed: 2, message: "preemptionPolicy=Never",
			change: func(pod *corev1.Pod) {
				if pod.Name == "m1" {
					pod.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever)
				}
			},
		},
		"members of lower priority are not evicted for others": {
			cluster: func(w *groupWorld) {
				w.addNode("n1", "2")
				w.addRunning("low", "n1", "1", 10)
			},
			members: 3, needed: 3,
			change: func(pod *corev1.Pod) {
				if pod.Name == "m0" {
					pod.Spec.Priority = ptr.To[int32](50)
				}
			},
		},
		"a disruption budget counts all evictions for the group": {
			cluster: func(w *groupWorld) {
				app := func(pod *corev1.Pod) { pod.Labels = map[string]string{"app": "db"} }
				for _, n := range []string{"n1", "n2", "n3"} {
					w.addNode(n, "1")
				}
				w.addRunning("db-1", "n1", "1", 10, app)
				w.addRunning("db-2", "n2", "1", 10, app)
				w.addRunning("other", "n3", "1", 20)
				w.Expect(w.objects.Put(&policyv1.PodDisruptionBudget{
					ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db", UID: "db"},
					Spec: policyv1.PodDisruptionBudgetSpec{
						Selector: metav1.SetAsLabelSelector(map[string]string{"app": "db"})},
					Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1},
				})).To(Succeed())
			},
			members: 2, needed: 2,
			evicted: []string{"db-", "other"},
		},
		"a group that is evicted as a whole": {
			cluster: func(w *groupWorld) {
				w.addWholeGroup([]int32{10, 10})
			},
			members: 1, needed: 1,
			evicted: []string{"v-n1", "v-n2"},
		},
		"other pods than a group that is evicted as a whole": {
			cluster: func(w *groupWorld) {
				w.addWholeGroup([]int32{10, 10, 10})
				w.addNode("n4", "1")
				w.addRunning("other-1", "n4", "500m", 10)
				w.addRunning("other-2", "n4", "500m", 10)
			},
			members: 1, needed: 1,
			evicted: []string{"other-", "other-"}, nominated: map[string]int{"n4": 1},
		},
		"a disruption budget protects another pod of a group that is evicted as a whole": {
			cluster: func(w *groupWorld) {
				w.addWholeGroup([]int32{10, 10}, objects.Labelled("app", "kept"))
				w.addNode("n3", "1")
				w.addRunning("other", "n3", "1", 20)
				w.Expect(w.objects.Put(&policyv1.PodDisruptionBudget{
					ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kept"},
					Spec: policyv1.PodDisruptionBudgetSpec{
						Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "kept"}}},
				})).To(Succeed())
			},
			members: 1, needed: 1,
			evicted: []string{"other"}, nominated: map[string]int{"n3": 1},
		},
		"a group that is evicted as a whole has a pod of a high priority": {
			cluster: func(w *groupWorld) {
				w.addWholeGroup([]int32{10, 200})
				w.addNode("n3", "1")
				w.addRunning("other", "n3", "1", 20)
			},
			members: 1, needed: 1,
			evicted: []string{"other"}, nominated: map[string]int{"n3": 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newGroupWorld(t)
			test.cluster(w)
			before := w.state()
			w.setMinMember(test.needed)
			if test.change == nil {
				test.change = func(*corev1.Pod) {}
			}
			w.addMembers(test.members, test.change)
			w.Expect(w.schedule()).To(BeEmpty())
			got := w.evicted()
			w.Expect(got).To(HaveLen(len(test.evicted)))
			for i, victim := range test.evicted {
				w.Expect(got[i]).To(HavePrefix(victim))
			}
			if test.nominated != nil || test.evicted == nil {
				w.Expect(w.nominated()).To(HaveLen(len(test.nominated)))
				for node, n := range test.nominated {
					w.Expect(w.nominated()).To(HaveKeyWithValue(node, n))
				}
			}
			w.Expect(w.reasons["m0"]).To(ContainSubstring(test.message))
			w.Expect(w.state()).To(Equal(before))
			w.Expect(w.ledger.reserved).To(BeEmpty())
			if len(got) == 0 {
				return
			}
			w.gone(got...)
			w.retry()
			placed := w.schedule()
			w.Expect(len(placed)).To(BeNumerically(">=", test.needed))
			w.end(placed)
		})
	}
}

// state returns the pods on each node, as the loop's snapshot has them.
func (w *groupWorld) state() map[string][]string {
	w.Expect(w.cluster.Cache.UpdateSnapshot(logr.Discard(), w.cluster.Snapshot)).To(Succeed())
	nodes, err := w.cluster.Snapshot.NodeInfos().List()
	w.Expect(err).NotTo(HaveOccurred())
	state := map[string][]string{}
	for _, node := range nodes {
		pods := []string{}
		for _, info := range node.GetPods() {
			pods = append(pods, info.GetPod().Name)
		}
		slices.Sort(pods)
		state[node.Node().Name] = append(pods, fmt.Sprint(node.GetRequested().GetMilliCPU()))
	}
	return state
}

// newWorldOfVictims returns a world with a group of two, for which low-n1 and low-n2 were evicted.
// low-n1 is gone, and there is another node n3.
func newWorldOfVictims(t *testing.T) *groupWorld {
	w := newGroupWorld(t)
	for _, n := range []string{"n1", "n2"} {
		w.addNode(n, "1")
		w.addRunning("low-"+n, n, "1", 10)
	}
	w.setMinMember(2)
	w.addMembers(2)
	w.Expect(w.schedule()).To(BeEmpty())
	w.Expect(w.evicted()).To(HaveLen(2))
	w.gone("low-n1")
	w.addNode("n3", "1")
	return w
}

func TestAGroupWaitsForItsVictims(t *testing.T) {
	w := newWorldOfVictims(t)
	w.addRunning("other", "n3", "1", 10)
	w.retry()
	w.Expect(w.schedule()).To(BeEmpty())
	w.Expect(w.reasons["m0"]).To(ContainSubstring("terminating pod"))
	w.Expect(w.cluster.Requests.Deleted()).To(BeZero(), "other is not evicted")
	w.Expect(w.nominated()).To(Equal(map[string]int{"n1": 1, "n2": 1}))

	w.gone("low-n2")
	w.retry()
	placed := w.schedule()
	w.Expect(placed).To(HaveLen(2))
	w.Expect(w.nominated()).To(BeEmpty())
	w.end(placed)
}

// TestAVictimThatCannotEnd has two nodes whose victims are evicted. One of them does not end: the
// group evicts another pod, and does not wait with the room of all members.
func TestAVictimThatCannotEnd(t *testing.T) {
	for name, stuck := range map[string]func(w *groupWorld){
		"its node is lost": func(w *groupWorld) {
			node := objects.NodeOf("n2")
			node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}}
			w.cluster.Cache.AddNode(logr.Discard(), node)
		},
		"it is overdue": func(w *groupWorld) {
			w.terminate("low-n2", 2*time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldOfVictims(t)
			w.addRunning("other", "n3", "1", 50)
			w.terminate("low-n2", 30*time.Second)
			w.retry()
			w.Expect(w.schedule()).To(BeEmpty())
			w.Expect(w.reasons["m0"]).To(ContainSubstring("terminating pod"))

			stuck(w)
			w.retry()
			w.Expect(w.schedule()).To(BeEmpty())
			w.Expect(w.evicted()).To(Equal([]string{"other"}))
			w.Expect(w.nominated()).To(Equal(map[string]int{"n1": 1, "n3": 1}))
		})
	}
}

// terminate makes the grace period of a pod end some time ago.
func (w *groupWorld) terminate(name string, ago time.Duration) {
	old := w.cluster.Cache.PodOf(types.UID(name))
	if old == nil {
		return
	}
	pod := old.DeepCopy()
	pod.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(-ago)}
	w.Expect(w.cluster.Cache.UpdatePod(logr.Discard(), old, pod)).To(Succeed())
}

// A group may fit at its second try, because nodes of equal score are drawn, and because plugins
// may change their mind.
func TestAGroupThatFitsWithoutEvictionsIsRetried(t *testing.T) {
	w := newGroupWorld(t)
	w.addNode("n1", "2")
	w.addRunning("low", "n1", "1", 10)
	w.ledger.refuse["m0"], w.ledger.once = fwk.NewStatus(fwk.Unschedulable, "not now"), true
	w.setMinMember(1)
	w.addMembers(1)
	w.Expect(w.schedule()).To(BeEmpty())
	w.Expect(w.reasons["m0"]).NotTo(ContainSubstring("evicting"))
	w.Expect(w.nominated()).To(BeEmpty())
	counts := w.cluster.Queue.Counts()
	w.Expect(counts.Active+counts.Backoff).To(Equal(1), "%+v", counts)
}

func TestAGroupPreemptsInARack(t *testing.T) {
	for name, test := range map[string]struct {
		topology podgroup.Topology
		running  map[string]int32 // by node, with its priority: it uses all of it
		evicted  []string
	}{
		"the one with the most room": {
			podgroup.Topology{Required: "rack"}, map[string]int32{"a1": 10, "a2": 10, "b1": 10}, []string{"low-b1"},
		},
		"the one with the least important pods": {
			podgroup.Topology{Required: "rack"}, map[string]int32{"a1": 10, "a2": 10, "b1": 90},
			[]string{"low-a1", "low-a2"},
		},
		"a preference evicts nobody": {
			podgroup.Topology{Preferred: []string{"rack"}}, map[string]int32{"a1": 10, "a2": 0, "b1": 10},
			[]string{"low-a2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newGroupWorld(t)
			for _, n := range []string{"a1", "a2", "b1", "b2"} {
				w.addNode(n, "2", "rack", n[:1])
			}
			for node, priority := range test.running {
				w.addRunning("low-"+node, node, "2", priority)
			}
			w.setTopology(4, test.topology)
			w.addMembers(4)
			w.Expect(w.schedule()).To(BeEmpty())
			w.Expect(w.evicted()).To(ConsistOf(test.evicted))
		})
	}
}

// TestALargeGroupEvictsNoMoreThanItNeeds has a group for which the least important pods do not
// suffice: once a larger one is evicted, half of them may stay.
func TestALargeGroupEvictsNoMoreThanItNeeds(t *testing.T) {
	w := newGroupWorld(t)
	w.addNode("large", "40")
	w.addRunning("large", "large", "40", 10)
	for i := range 60 {
		name := fmt.Sprint("small-", i)
		w.addNode(name, "1")
		w.addRunning(name, name, "1", 5)
	}
	w.setMinMember(70)
	w.addMembers(70)
	w.Expect(w.schedule()).To(BeEmpty())
	w.Expect(w.evicted()).To(HaveLen(31))
}

// TestALeftOverMemberPreempts has a group that is placed without one of its pods, although that one
// would fit in the place of a less important pod.
func TestALeftOverMemberPreempts(t *testing.T) {
	w := newGroupWorld(t)
	w.addNode("n1", "4")
	w.addRunning("low", "n1", "1", 10)
	w.setMinMember(3)
	w.addMembers(4)
	placed := w.schedule()
	w.Expect(placed).To(HaveLen(3))
	w.end(placed)

	counts := w.cluster.Queue.Counts()
	w.Expect(counts.Active+counts.Backoff).To(Equal(1), "no event comes: %+v", counts)
	clear(w.reasons)
	w.Expect(w.schedule()).To(BeEmpty())
	w.Expect(w.reasons).To(HaveLen(1))
	for _, reason := range w.reasons {
		w.Expect(reason).To(ContainSubstring("evicting 1 pods"))
	}
}

// TestAWholeGroupIsEvictedForTheSecondRack has a rack that is tried first, in vain: the pods that
// were hidden for it belong to their group again when the next rack is tried.
func TestAWholeGroupIsEvictedForTheSecondRack(t *testing.T) {
	w := newGroupWorld(t)
	w.cluster.Groups.SetGroup(podgroup.Group{Key: podgroup.Key{Namespace: "default", Name: "victims"}, MinMember: 2,
		EvictedWhole: true})
	w.addNode("a1", "2", "rack", "a", "usable", "yes")
	w.addNode("a2", "8", "rack", "a")
	w.addNode("b1", "1", "rack", "b", "usable", "yes")
	w.addNode("b2", "2", "rack", "b", "usable", "yes")
	w.addRunning("victim-a", "a1", "2", 10, objects.MemberOf("victims"))
	w.addRunning("victim-b", "b1", "1", 10, objects.MemberOf("victims"))
	w.addRunning("low-b", "b2", "2", 10)
	w.setTopology(3, podgroup.Topology{Required: "rack"})
	w.addMembers(3, func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"usable": "yes"} })
	w.Expect(w.schedule()).To(BeEmpty())
	w.Expect(w.evicted()).To(ConsistOf("victim-a", "victim-b", "low-b"))
	w.Expect(w.nominated()).To(Equal(map[string]int{"b1": 1, "b2": 2}))
}

// TestADomainTakesAllDryRuns lets a group look for victims in the other racks, too, if the dry runs
// that are allowed do not suffice for the first one.
func TestADomainTakesAllDryRuns(t *testing.T) {
	w := newGroupWorld(t)
	for _, rack := range []string{"a", "b", "c"} {
		for i := range 3 {
			node, usable := rack+fmt.Sprint(i), "yes"
			if i > 0 && rack != "c" { // two members need two nodes
				usable = "no"
			}
			w.addNode(node, "2", "rack", rack, "usable", usable)
			w.addRunning("low-"+node, node, "2", 10)
		}
	}
	w.setTopology(2, podgroup.Topology{Required: "rack"})
	w.addMembers(2, objects.Labelled("app", "g"), objects.AwayFrom("app", "g"), func(pod *corev1.Pod) {
		pod.Spec.NodeSelector = map[string]string{"usable": "yes"}
	})
	popped := w.cluster.Queue.Pop(logr.Discard())
	g := w.loop.newGroupCycle(&popped)
	defer func() {
		g.End(w.ctx)
		for _, m := range g.members {
			w.cluster.Queue.Done(m.pod.Pod.UID)
			m.profile.Release(logr.Discard())
		}
	}()
	g.skip(w.ctx)
	w.Expect(g.attempt(w.ctx)).To(BeFalse())
	for tries := range 4 {
		g.DryRuns = 6 // rack c needs all of them
		plan, _, err := g.Preempt(w.ctx)
		if plan != nil {
			w.Expect(err).NotTo(HaveOccurred())
			w.Expect(plan.Domain.String()).To(Equal("rack=c"))
			w.Expect(tries).To(BeNumerically(">", 0))
			return
		}
	}
	w.Fail("no rack has been found")
}

// TestAGroupIsWokenByWhatKeptItFromPreempting has groups that are too large for the free resources,
// so that plugins see their members only when the group looks for victims. Each node has one, and a
// pod that stays.
func TestAGroupIsWokenByWhatKeptItFromPreempting(t *testing.T) {
	fromOthers := []func(*corev1.Pod){objects.AwayFrom("app", "other")}
	for name, test := range map[string]struct {
		nodes, free   int
		tainted       bool
		members, last []func(*corev1.Pod)
	}{
		"the nodes do not admit it":                                     {nodes: 2, tainted: true},
		"a free node has one that it is far from":                       {nodes: 2, free: 1, members: fromOthers},
		"a pod is far from others, of more than there are dry runs for": {nodes: 120, last: fromOthers},
	} {
		t.Run(name, func(t *testing.T) {
			w := newGroupWorld(t)
			node := func(i int, taints ...corev1.Taint) *corev1.Node {
				node := objects.NodeOf(fmt.Sprint("n", i))
				node.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("1")
				node.Spec.Taints = taints
				return node
			}
			taints := []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}}
			if !test.tainted {
				taints = nil
			}
			var others []*corev1.Pod
			for i := range test.nodes {
				w.cluster.Cache.AddNode(logr.Discard(), node(i, taints...))
				others = append(others, w.addRunning(fmt.Sprint("other-", i), node(i).Name, "0", 200,
					objects.Labelled("app", "other")))
				if i >= test.free {
					w.addRunning(fmt.Sprint("low-", i), node(i).Name, "1", 10)
				}
			}
			w.setMinMember(test.nodes)
			w.addMembers(test.nodes-1, test.members...)
			w.addPod("last", "1", slices.Concat(test.members, test.last, []func(*corev1.Pod){withPriority(100)})...)
			w.Expect(w.schedule()).To(BeEmpty())
			w.Expect(w.reasons["last"]).To(HaveSuffix("there are resources for %d of them at most", test.free))
			w.Expect(w.cluster.Queue.Counts().Unschedulable).To(Equal(test.nodes))

			move := func(resource fwk.EventResource, action fwk.ActionType, before, after any) {
				event := fwk.ClusterEvent{Resource: resource, ActionType: action}
				w.cluster.Queue.Move(logr.Discard(), event, before, after, nil)
			}
			for i, other := range others {
				if test.tainted {
					w.cluster.Cache.UpdateNode(logr.Discard(), node(i, taints...), node(i))
					move(fwk.Node, fwk.UpdateNodeTaint, node(i, taints...), node(i))
					continue
				}
				another := objects.Edited(other, func(pod *corev1.Pod) { pod.Labels = nil })
				w.Expect(w.cluster.Cache.UpdatePod(logr.Discard(), other, another)).To(Succeed())
				move(fwk.AssignedPod, fwk.UpdatePodLabel, other, another)
			}
			w.Expect(w.cluster.Queue.Counts().Unschedulable).To(BeNumerically("<", test.nodes), "one wakes its group")
			w.retry()
			w.Expect(w.schedule()).To(BeEmpty())
			w.Expect(w.evictedFor("last")).To(HaveLen(test.nodes - test.free))
		})
	}
}

// TestRandomGroupsPreempt lets groups preempt on random clusters. If a group evicts, it fits when
// the victims are gone. If a group of equal pods does not, it would not fit without any pods of a
// lower priority.
func TestRandomGroupsPreempt(t *testing.T) {
	for seed := range uint64(100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 13))
			w := newGroupWorld(t)
			room, lower := 0, 0
			for i := range 1 + random.IntN(6) {
				node, cpus := fmt.Sprintf("n%d", i), 1+random.IntN(4)
				w.addNode(node, fmt.Sprint(cpus))
				room += cpus
				for used := 0; random.IntN(4) > 0; {
					cpu := 1 + random.IntN(2)
					if used += cpu; used > cpus {
						break
					}
					priority := int32(random.IntN(6) * 25)
					w.addRunning(fmt.Sprintf("r%d-%d", i, used), node, fmt.Sprint(cpu), priority)
					if priority >= 100 {
						room -= cpu
					} else {
						lower++
					}
				}
			}
			pods := 1 + random.IntN(8)
			needed := 1 + random.IntN(pods)
			before, changes := w.state(), w.cluster.Cache.Changes()
			w.loop.Decisions = decisionlog.New(1000)
			w.setMinMember(needed)
			mixed := seed%2 == 1 // one after the other, these may fit nowhere although there is a way
			w.addMembers(pods, func(pod *corev1.Pod) {
				if mixed {
					pod.Spec.Containers[0].Resources = objects.Requests(fmt.Sprint(1+random.IntN(2)), "1Mi")
				}
			})
			if placed := w.schedule(); len(placed) > 0 {
				w.Expect(len(placed)).To(BeNumerically(">=", needed))
				w.end(placed)
				return
			}
			w.Expect(w.state()).To(Equal(before))
			w.Expect(w.cluster.Cache.Changes()).To(Equal(changes), "an attempt that fails is no change")
			if room < needed || mixed && len(w.nominated()) == 0 {
				w.Expect(w.nominated()).To(BeEmpty())
				w.Expect(w.cluster.Requests.Deleted()).To(BeZero())
				return
			}
			w.Expect(w.nominated()).NotTo(BeEmpty())
			victims := w.evicted()
			w.Expect(victims).NotTo(BeEmpty())
			w.Expect(len(victims)).To(BeNumerically("<=", lower))
			w.gone(victims...)
			w.retry()
			placed := w.schedule()
			w.Expect(len(placed)).To(BeNumerically(">=", needed))
			w.end(placed)
		})
	}
}

// addDependent adds a group of two pods of which the first one in the queue fits only beside the
// other one, on a cluster where groups look for victims.
func (w *groupWorld) addDependent() {
	w.addNode("n1", "4")
	w.addNode("n2", "1")
	w.addRunning("less-important", "n2", "1", 0)
	w.setMinMember(2)
	w.addPod("m0", "1", withPriority(100), objects.Near("leads", "yes"))
	w.addPod("m1", "1", withPriority(100), objects.Labelled("leads", "yes"))
}

func TestAGroupIsPlacedInTheOrderInWhichItFits(t *testing.T) {
	w := newGroupWorld(t)
	w.addDependent()
	w.Expect(w.schedule()).To(BeEmpty())
	w.Expect(w.cluster.Requests.Deleted()).To(BeZero())
	w.Expect(w.end(w.schedule())).To(ConsistOf("m0", "m1"), "it is tried again at once")
}

func TestAGroupThatMayFitInAnotherOrderIsNotTriedForEver(t *testing.T) {
	w := newGroupWorld(t)
	w.addDependent()
	w.Expect(w.schedule()).To(BeEmpty())
	// The order that was found is of no use for another pod.
	for _, pod := range w.cluster.Queue.Pods() {
		if pod.Pod.Name == "m1" {
			w.cluster.Queue.Delete(logr.Discard(), pod.Pod)
			w.Expect(w.objects.Remove(pod.Pod)).To(Succeed())
		}
	}
	w.addPod("m1", "1", withPriority(100), objects.Labelled("leads", "yes"), func(pod *corev1.Pod) { pod.UID = "new" })
	w.Expect(w.schedule()).To(BeEmpty())
	w.Expect(w.reasons["m0"]).To(ContainSubstring("trying again in 10s"))
	w.Expect(w.cluster.Queue.Counts().Unschedulable).To(Equal(2))
	w.Expect(w.tryAgain()).To(ConsistOf("m0", "m1"), "in the order that was found for them")
}

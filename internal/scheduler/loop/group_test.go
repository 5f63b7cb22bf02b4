// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/algorithm"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/internal/scheduler/failure"
	"github.com/livesched/livesched/internal/scheduler/fastpath"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/podstatus"
	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/sidebyside"
)

// ledger is a plugin that notes what it reserves, and refuses the pods that it is told to.
type ledger struct {
	reserved []string
	refuse   map[string]*fwk.Status
	// once means that a pod is refused only once.
	once bool
	// during is called when the first pod is reserved.
	during func()
}

func (*ledger) Name() string { return "PluginOfTheTest" }

func (l *ledger) Reserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) *fwk.Status {
	if status := l.refuse[pod.Name]; status != nil {
		if l.once {
			delete(l.refuse, pod.Name)
		}
		return status
	}
	if l.during != nil && len(l.reserved) == 0 {
		l.during()
	}
	l.reserved = append(l.reserved, pod.Name)
	return nil
}

// Unreserve fails the test by a panic if the pod is not the last one that is reserved.
func (l *ledger) Unreserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) {
	last := len(l.reserved) - 1
	switch {
	case last >= 0 && l.reserved[last] == pod.Name:
		l.reserved = l.reserved[:last]
	case l.refuse[pod.Name] == nil:
		panic(fmt.Sprintf("%s is not the last one of %v", pod.Name, l.reserved))
	}
}

// groupWorld is a loop on a cluster of its own, with the group "default/g".
type groupWorld struct {
	*WithT
	ctx     context.Context
	objects sidebyside.Objects
	cluster *sidebyside.Livesched
	loop    *Loop
	// plugin builds one more plugin of the profile: the ledger, if there is one.
	plugin func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error)
	ledger *ledger
	// reasons are the messages of the failed attempts, by pod.
	reasons map[string]string
}

func newGroupWorld(t testing.TB) *groupWorld {
	l := &ledger{refuse: map[string]*fwk.Status{}}
	w := newWorld(t, func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return l, nil })
	w.ledger = l
	return w
}

// newWorld returns a world whose profile has a plugin more.
func newWorld(t testing.TB, plugin func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error)) *groupWorld {
	metrics.Register()
	w := &groupWorld{
		WithT: NewWithT(t), ctx: klog.NewContext(t.Context(), logr.Discard()), objects: sidebyside.NewObjects(),
		plugin: plugin, reasons: map[string]string{},
	}
	w.cluster = w.newCluster()
	t.Cleanup(w.cluster.Close)
	w.cluster.Groups.SetServed(podgroup.SchedulerPlugins, func() bool { return true }, nil)
	w.loop = &Loop{
		Queue: w.cluster.Queue, Profiles: w.cluster.Store, Cache: w.cluster.Cache, Snapshot: w.cluster.Snapshot,
		Groups: w.cluster.Groups,
		Decider: algorithm.New(algorithm.Config{Snapshot: w.cluster.Snapshot,
			Engine: fastpath.New(w.cluster.Snapshot, 0)}),
		Failures:  w.failures(),
		Heartbeat: &Heartbeat{}, Clock: clock.RealClock{},
	}
	return w
}

// newCluster builds livesched with a profile that has the plugin.
func (w *groupWorld) newCluster() *sidebyside.Livesched {
	const name = "PluginOfTheTest"
	cluster, err := sidebyside.NewLivesched(w.ctx, w.objects, &sidebyside.Configuration{
		Profile: configv1.KubeSchedulerProfile{
			SchedulerName: ptr.To("mine"),
			Plugins:       &configv1.Plugins{MultiPoint: configv1.PluginSet{Enabled: []configv1.Plugin{{Name: name}}}},
		},
		Parallelism: 1,
	}, sidebyside.FastPath, framework.Registry{name: w.plugin})
	w.Expect(err).NotTo(HaveOccurred())
	return cluster
}

// failures returns a handler that adds messages to the decisions of the loop.
func (w *groupWorld) failures() *failure.Handler {
	var decisions *decisionlog.Log
	if w.loop != nil {
		decisions = w.loop.Decisions
	}
	return &failure.Handler{
		Queue: w.cluster.Queue, Pods: w.objects.Core().V1().Pods().Lister(), Statuses: podstatus.NewWriter(nil, nil),
		Decisions: decisions,
	}
}

// addNode adds a node with labels, which are pairs of keys and values.
func (w *groupWorld) addNode(name, cpu string, labels ...string) {
	node := objects.NodeOf(name, labels...)
	node.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse(cpu)
	w.cluster.Cache.AddNode(logr.Discard(), node)
}

// addPod queues a pod of the group.
func (w *groupWorld) addPod(name, cpu string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := objects.Pod("default", name, "mine", cpu, "1Mi")
	pod.UID = types.UID(name)
	pod.Labels = map[string]string{podgroup.Label: group.Name}
	for _, change := range changes {
		change(pod)
	}
	w.Expect(w.objects.Put(pod)).To(Succeed())
	w.cluster.Queue.Add(logr.Discard(), pod)
	return pod
}

var group = podgroup.Key{Namespace: "default", Name: "g"}

func (w *groupWorld) setMinMember(n int) {
	w.cluster.Groups.SetGroup(podgroup.Group{Key: group, MinMember: n})
	w.cluster.Queue.GroupChanged(logr.Discard(), group)
}

// schedule runs the cycle of the group, and returns the pods that are to be bound.
func (w *groupWorld) schedule() []*member {
	popped := w.cluster.Queue.Pop(logr.Discard())
	w.Expect(popped.Group).NotTo(BeNil())
	g := w.loop.newGroupCycle(&popped)
	placed := g.run(w.ctx)
	for i, m := range g.members {
		if status := g.statusOf(i); status != nil {
			w.reasons[m.pod.Pod.Name] = status.Message()
		}
	}
	return placed
}

// end releases what the pods to be bound hold.
func (w *groupWorld) end(placed []*member) (names []string) {
	for _, m := range placed {
		names = append(names, m.pod.Pod.Name)
		m.release(logr.Discard())
	}
	return names
}

// expectNothingLeft fails the test if an attempt has left anything behind.
func (w *groupWorld) expectNothingLeft(pods int) {
	w.Expect(w.ledger.reserved).To(BeEmpty())
	w.Expect(w.cluster.Cache.Size().AssumedPods).To(BeZero())
	w.Expect(w.cluster.Cache.UpdateSnapshot(logr.Discard(), w.cluster.Snapshot)).To(Succeed())
	nodes, err := w.cluster.Snapshot.NodeInfos().List()
	w.Expect(err).NotTo(HaveOccurred())
	for _, node := range nodes {
		w.Expect(node.GetPods()).To(BeEmpty())
		w.Expect(node.GetRequested().GetMilliCPU()).To(BeZero())
	}
	counts := w.cluster.Queue.Counts()
	w.Expect(counts.InFlight).To(BeZero())
	w.Expect(counts.Active + counts.Backoff + counts.ErrorBackoff + counts.Unschedulable).To(Equal(pods))
}

func TestAGroupIsPlacedAsAWhole(t *testing.T) {
	w := newGroupWorld(t)
	w.addNode("n1", "2")
	w.addNode("n2", "2")
	w.setMinMember(3)
	for _, name := range []string{"a", "b", "c"} {
		w.addPod(name, "1")
	}
	placed := w.schedule()
	w.Expect(placed).To(HaveLen(3))
	w.Expect(w.ledger.reserved).To(HaveLen(3))
	for _, m := range placed {
		w.Expect(m.placed.Barrier).To(BeIdenticalTo(placed[0].placed.Barrier))
		known, err := w.cluster.Cache.GetPod(m.placed.Pod.Pod)
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(known).To(BeIdenticalTo(m.placed.Pod.Pod), "binding.Unconfirmed compares them")
	}
	needed, _ := w.cluster.Groups.Needed(group)
	w.Expect(needed).To(Equal(1), "the group has what it needs")
	w.end(placed)
}

func TestAGroupThatDoesNotFitLeavesNothingBehind(t *testing.T) {
	w := newGroupWorld(t)
	w.addNode("n1", "2")
	w.setMinMember(3)
	var pods []*corev1.Pod
	for _, name := range []string{"a", "b", "c"} {
		pods = append(pods, w.addPod(name, "1"))
	}
	w.Expect(w.schedule()).To(BeEmpty())
	w.expectNothingLeft(3)
	want := "pod group default/g: 3 pods must be placed together, but there are resources for 2 of them at most"
	w.Expect(w.reasons).To(Equal(map[string]string{"a": want, "b": want, "c": want}))
	for _, pod := range pods {
		state, _ := w.cluster.Queue.Get(pod.UID)
		w.Expect(state.Place).To(Equal(queue.Unschedulable))
		w.Expect(state.UnschedulablePlugins).To(Equal([]string{"NodeResourcesFit"}))
	}
}

func TestAGroupRequiresALabelThatNoNodeHas(t *testing.T) {
	w := newGroupWorld(t)
	w.addNode("n1", "2", "rack", "a")
	w.setTopology(1, podgroup.Topology{Required: "rak"})
	pod := w.addPod("a", "1")
	w.Expect(w.schedule()).To(BeEmpty())
	w.expectNothingLeft(1)
	w.Expect(w.reasons["a"]).To(Equal("pod group default/g: no node has the label rak, which the group requires"))
	state, _ := w.cluster.Queue.Get(pod.UID)
	w.Expect(state.UnschedulablePlugins).To(ConsistOf("NodeAffinity", podgroup.TopologyGate))
}

func TestAGroupIsTakenBackWhenOnePodDoesNotFit(t *testing.T) {
	w := newGroupWorld(t)
	w.addNode("n1", "4")
	w.setMinMember(3)
	for _, name := range []string{"a", "b"} {
		w.addPod(name, "1")
	}
	w.addPod("c", "1", objects.Selecting("disk", "ssd"))
	w.Expect(w.schedule()).To(BeEmpty())
	w.expectNothingLeft(3)
	want := "pod group default/g: 2 of 3 pods that must be placed together fit; c: 0/1 nodes are available: 1 " +
		"node(s) didn't match Pod's node affinity/selector."
	w.Expect(w.reasons).To(Equal(map[string]string{"a": want, "b": want, "c": want}))
}

func TestMorePodsThanAGroupNeeds(t *testing.T) {
	w := newGroupWorld(t)
	w.addNode("n1", "2")
	w.setMinMember(2)
	for _, name := range []string{"a", "b", "c"} {
		w.addPod(name, "1")
	}
	w.Expect(w.end(w.schedule())).To(Equal([]string{"a", "b"}))
	w.Expect(w.reasons).To(Equal(map[string]string{"c": "0/1 nodes are available: 1 Insufficient cpu."}))
}

func TestAPodThatComesLaterIsNotBoundBeforeTheOthers(t *testing.T) {
	w := newGroupWorld(t)
	w.addNode("n1", "8")
	w.setMinMember(2)
	w.addPod("a", "1")
	w.addPod("b", "1")
	first := w.schedule()
	w.addPod("c", "1")
	later := w.schedule()
	w.Expect(later).To(HaveLen(1))
	w.Expect(later[0].placed.Barrier).To(BeIdenticalTo(first[0].placed.Barrier))
	w.end(append(first, later...))
}

func TestAGroupThatNeedsMorePodsThanBeforeIsTakenBack(t *testing.T) {
	w := newGroupWorld(t)
	w.addNode("n1", "8")
	bound := objects.Pod("default", "bound", "mine", "1", "1Mi")
	bound.UID, bound.Spec.NodeName = "bound", "elsewhere"
	bound.Labels = map[string]string{podgroup.Label: group.Name}
	w.cluster.Groups.SetAssigned(bound)
	w.setMinMember(2)
	w.addPod("a", "1")
	popped := w.cluster.Queue.Pop(logr.Discard())
	g := w.loop.newGroupCycle(&popped)
	w.cluster.Groups.Forget(bound)
	w.Expect(g.run(w.ctx)).To(BeEmpty())
	w.expectNothingLeft(1)
	needed, _ := w.cluster.Groups.Needed(group)
	w.Expect(needed).To(Equal(2))
}

// TestMembersThatAreDeletedDuringTheAttempt has members that are gone when the others are placed:
// they must not open the barrier, behind which fewer than needed would be bound.
func TestMembersThatAreDeletedDuringTheAttempt(t *testing.T) {
	for name, test := range map[string]struct {
		pods      []string
		terminate bool
		want      []string // to be bound
		waiting   int
	}{
		"too few are left":   {pods: []string{"a", "b", "c"}},
		"enough are left":    {pods: []string{"a", "b", "c", "d"}, want: []string{"a", "b", "c"}},
		"it has a finalizer": {pods: []string{"a", "b", "c"}, terminate: true, waiting: 1},
		"enough have no deletion": {pods: []string{"a", "b", "c", "d"}, terminate: true, want: []string{"a", "b", "c"},
			waiting: 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newGroupWorld(t)
			w.addNode("n1", "8")
			w.setMinMember(3)
			var last *corev1.Pod
			for _, name := range test.pods {
				last = w.addPod(name, "1")
			}
			popped := w.cluster.Queue.Pop(logr.Discard())
			g := w.loop.newGroupCycle(&popped)
			if test.terminate {
				last = last.DeepCopy()
				last.DeletionTimestamp = &metav1.Time{}
				w.Expect(w.objects.Put(last)).To(Succeed())
			} else {
				w.Expect(w.objects.Remove(last)).To(Succeed())
			}
			placed := g.run(w.ctx)
			needed, _ := w.cluster.Groups.Needed(group)
			w.Expect(w.end(placed)).To(Equal(test.want))
			if test.want == nil {
				w.Expect(needed).To(Equal(3))
				w.Expect(w.ledger.reserved).To(BeEmpty())
				w.Expect(w.cluster.Cache.Size().AssumedPods).To(BeZero())
				w.Expect(w.cluster.Queue.Counts().ErrorBackoff).To(Equal(2 + test.waiting))
			}
			w.Expect(w.cluster.Queue.Counts().InFlight).To(BeZero())
		})
	}
}

// setTopology gives the group annotations.
func (w *groupWorld) setTopology(minMember int, topology podgroup.Topology) {
	w.cluster.Groups.SetGroup(podgroup.Group{Key: group, MinMember: minMember, Topology: topology})
	w.cluster.Queue.GroupChanged(logr.Discard(), group)
}

// racks returns the racks of the pods that are to be bound.
func (w *groupWorld) racks(placed []*member) sets.Set[string] {
	racks := sets.New[string]()
	for _, m := range placed {
		node, err := w.cluster.Snapshot.NodeInfos().Get(m.placed.NodeName)
		w.Expect(err).NotTo(HaveOccurred())
		racks.Insert(node.Node().Labels["rack"])
	}
	return racks
}

// addRacks adds racks "r0", "r1" and so on, each with nodes of two CPUs.
func (w *groupWorld) addRacks(nodes ...int) {
	for r, n := range nodes {
		for i := range n {
			w.addNode(fmt.Sprintf("r%d-%d", r, i), "2", "rack", fmt.Sprintf("r%d", r), "block", fmt.Sprintf("b%d", r/2))
		}
	}
}

func (w *groupWorld) addPods(n int) {
	for i := range n {
		w.addPod(fmt.Sprintf("p%d", i), "1")
	}
}

func TestTheDomainOfADecisionIsRecorded(t *testing.T) {
	for key, want := range map[string]podgroup.Domain{"": nil, "rack": {{Key: "rack", Value: "r0"}}} {
		w := newGroupWorld(t)
		w.loop.Decisions = decisionlog.New(10)
		w.addRacks(4)
		w.setTopology(3, podgroup.Topology{Required: key})
		w.addPods(3)
		placed := w.schedule()
		w.Expect(placed).To(HaveLen(3))
		decisions := w.loop.Decisions.Last(10)
		w.Expect(decisions).To(HaveLen(3))
		for i := range decisions {
			w.Expect(decisions[i].Domain).To(Equal(want), "topology %q", key)
		}
		w.end(placed)
	}
}

func TestAGroupIsPlacedInOneRack(t *testing.T) {
	required := podgroup.Topology{Required: "rack"}
	t.Run("the smallest that has room", func(t *testing.T) {
		w := newGroupWorld(t)
		w.addRacks(4, 2, 3)
		w.setTopology(5, required)
		w.addPods(5)
		placed := w.schedule()
		w.Expect(w.racks(placed).UnsortedList()).To(Equal([]string{"r2"}))
		w.end(placed)
	})
	t.Run("another one if pods do not fit there", func(t *testing.T) {
		w := newGroupWorld(t)
		w.addRacks(4, 2, 3)
		w.setTopology(5, required)
		w.addPods(4)
		w.addPod("picky", "1", objects.Selecting(corev1.LabelHostname, "r0-1"))
		placed := w.schedule()
		w.Expect(placed).To(HaveLen(5))
		w.Expect(w.racks(placed).UnsortedList()).To(Equal([]string{"r0"}))
		w.end(placed)
	})
	t.Run("one whose nodes admit the pods, of many", func(t *testing.T) {
		w := newGroupWorld(t)
		w.addRacks(1, 1, 1, 1, 1, 1, 1, 1, 1)
		w.addNode("batch", "64", "rack", "batch", "pool", "batch")
		w.setTopology(2, required)
		w.addPod("a", "1", objects.Selecting("pool", "batch"))
		w.addPod("b", "1", objects.Selecting("pool", "batch"))
		placed := w.schedule()
		w.Expect(w.racks(placed).UnsortedList()).To(Equal([]string{"batch"}))
		w.end(placed)
	})
	t.Run("none whose nodes admit too few", func(t *testing.T) {
		w := newGroupWorld(t)
		w.addRacks(3)
		w.setTopology(2, required)
		w.addPod("a", "1")
		b := w.addPod("b", "1", objects.Selecting("pool", "batch"))
		w.Expect(w.schedule()).To(BeEmpty())
		w.Expect(w.reasons["a"]).
			To(ContainSubstring(
				"1 of 2 pods that must be placed together fit in rack=r0; b: 0/3 nodes are available: "))
		state, _ := w.cluster.Queue.Get(b.UID)
		w.Expect(state.UnschedulablePlugins).To(ContainElements("NodeAffinity", "NodeResourcesFit"),
			"pods may leave another rack")
	})
	t.Run("or not at all", func(t *testing.T) {
		w := newGroupWorld(t)
		w.addRacks(4, 2, 3)
		w.setTopology(9, required)
		w.addPods(9)
		w.Expect(w.schedule()).To(BeEmpty())
		w.expectNothingLeft(9)
		w.Expect(w.reasons["p0"]).To(Equal(
			"pod group default/g: 9 pods must be placed together, but there are resources for 8 of them at most in " +
				"one rack"))
	})
	t.Run("with the reason of the rack where most of it fits", func(t *testing.T) {
		w := newGroupWorld(t)
		w.addRacks(3, 3)
		w.setTopology(3, required)
		w.addPods(1)
		w.addPod("a", "1", objects.Selecting(corev1.LabelHostname, "r0-1"))
		w.addPod("b", "1", objects.Selecting(corev1.LabelHostname, "r1-1"))
		w.Expect(w.schedule()).To(BeEmpty())
		w.expectNothingLeft(3)
		w.Expect(w.reasons["a"]).To(MatchRegexp("^pod group default/g: [12] of 3 pods that must be placed together " +
			"fit in rack=r[01]; [ab]: 0/6 nodes are available: "))
	})
	t.Run("where others of it are", func(t *testing.T) {
		w := newGroupWorld(t)
		w.addRacks(4, 2, 3)
		there := w.addPod("there", "1")
		there.Spec.NodeName = "r0-0"
		w.cluster.Queue.Delete(logr.Discard(), there)
		w.cluster.Groups.SetAssigned(there)
		w.setTopology(3, required)
		w.addPods(2)
		placed := w.schedule()
		w.Expect(w.racks(placed).UnsortedList()).To(Equal([]string{"r0"}))
		w.end(placed)
	})
}

// TestAGroupGoesOnWithTheNextRack has so many racks in which all pods but one fit that one attempt
// does not try them all. The group evicts nobody before it has tried all.
func TestAGroupGoesOnWithTheNextRack(t *testing.T) {
	w := newGroupWorld(t)
	const racks, pods = 90, 100
	for i := range racks {
		name := fmt.Sprint("r", i)
		w.addNode(name, fmt.Sprint(pods+1), "rack", name)
		if i < racks-1 {
			w.addRunning("on-"+name, name, "1", 10, objects.HostPort(80))
		}
	}
	w.setTopology(pods, podgroup.Topology{Required: "rack"})
	w.addMembers(pods-1, withPriority(100))
	w.addPod("with-port", "1", withPriority(50), objects.HostPort(80))
	w.Expect(w.schedule()).To(BeEmpty())
	w.Expect(w.reasons["m0"]).To(MatchRegexp("99 of 100 pods .* fit in rack=r.*; [78][0-9] of 90 domains were tried$"))
	counts := w.cluster.Queue.Counts()
	w.Expect(counts.Active+counts.Backoff).To(Equal(pods), "no event comes: %+v", counts)
	placed := w.schedule()
	w.Expect(w.racks(placed).UnsortedList()).To(Equal([]string{fmt.Sprint("r", racks-1)}))
	w.end(placed)
}

func TestAGroupIsRetriedWhenARackGrows(t *testing.T) {
	for name, test := range map[string]struct {
		racks   []int
		members func(w *groupWorld)
	}{
		"no rack has the resources": {[]int{2, 2}, func(w *groupWorld) { w.addPods(5) }},
		"not all pods fit in the rack that has them": {[]int{3, 2}, func(w *groupWorld) {
			w.addPods(4)
			w.addPod("picky", "1", objects.Selecting(corev1.LabelHostname, "r1-0"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newGroupWorld(t)
			w.addRacks(test.racks...)
			w.setTopology(5, podgroup.Topology{Required: "rack"})
			test.members(w)
			w.Expect(w.schedule()).To(BeEmpty())
			w.Expect(w.cluster.Queue.Counts().Unschedulable).To(Equal(5))

			old := objects.NodeOf("r0-1", "rack", "r0")
			relabel := func(key, value string) {
				node := old.DeepCopy()
				node.Labels[key] = value
				event := fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeLabel}
				w.cluster.Queue.Move(logr.Discard(), event, old, node, nil)
			}
			relabel("color", "red")
			w.Expect(w.cluster.Queue.Counts().Unschedulable).To(Equal(5), "it requires another label")
			relabel("rack", "r1")
			w.Expect(w.cluster.Queue.Counts().Unschedulable).To(BeZero())
		})
	}
}

func TestAGroupIsPlacedAsNearAsItFits(t *testing.T) {
	preferred := podgroup.Topology{Preferred: []string{"rack", "block"}}
	for name, test := range map[string]struct {
		pods   int
		racks  []string
		refuse bool
	}{
		"in a rack":  {6, []string{"r2"}, false},
		"in a block": {10, []string{"r0", "r1"}, false},
		"anywhere":   {15, []string{"r0", "r1", "r2"}, false},
		"nowhere":    {19, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newGroupWorld(t)
			w.addRacks(4, 2, 3) // two blocks: of 12 CPUs, and of 6
			w.setTopology(test.pods, preferred)
			w.addPods(test.pods)
			placed := w.schedule()
			if test.refuse {
				w.Expect(placed).To(BeEmpty())
				w.expectNothingLeft(test.pods)
				return
			}
			w.Expect(placed).To(HaveLen(test.pods))
			w.Expect(sets.List(w.racks(placed))).To(Equal(test.racks))
			w.end(placed)
		})
	}
}

func TestAGroupWithAWrongAnnotationSaysSo(t *testing.T) {
	w := newGroupWorld(t)
	w.addRacks(4)
	w.cluster.Groups.SetGroup(podgroup.Group{Key: group, MinMember: 2, Problem: "annotation x: wrong"})
	w.addPods(2)
	w.Expect(w.schedule()).To(BeEmpty())
	w.expectNothingLeft(2)
	w.Expect(w.reasons["p0"]).To(Equal("pod group default/g: annotation x: wrong"))
	w.setTopology(2, podgroup.Topology{})
	w.cluster.Queue.RetryGroup(logr.Discard(), group)
	placed := w.schedule()
	w.Expect(placed).To(HaveLen(2))
	w.end(placed)
}

func TestAnErrorTakesTheGroupBack(t *testing.T) {
	w := newGroupWorld(t)
	w.addNode("n1", "8")
	w.setMinMember(3)
	for _, name := range []string{"a", "b", "c"} {
		w.addPod(name, "1")
	}
	w.ledger.refuse["c"] = fwk.AsStatus(errors.New("out of ink"))
	w.Expect(w.schedule()).To(BeEmpty())
	w.expectNothingLeft(3)
	w.Expect(w.cluster.Queue.Counts().ErrorBackoff).To(Equal(3))
	w.Expect(w.reasons["a"]).To(HavePrefix("pod group default/g: 2 of 3 pods that must be placed together fit; c: "))
	w.Expect(w.reasons["c"]).To(ContainSubstring("out of ink"))
}

func TestAPodThatIsBeingDeletedDoesNotCount(t *testing.T) {
	w := newGroupWorld(t)
	w.addNode("n1", "8")
	w.setMinMember(2)
	w.addPod("a", "1")
	b := w.addPod("b", "1")
	deleting := b.DeepCopy()
	deleting.DeletionTimestamp = ptr.To(metav1.Now())
	w.cluster.Queue.Update(logr.Discard(), b, deleting)
	popped := w.cluster.Queue.Pop(logr.Discard())
	w.Expect(popped.Pod.Pod.Name).To(Equal("b"))
	w.Expect(popped.Group).To(BeNil())
	w.Expect(w.loop.newCycle(w.loop.Profiles.Popped(popped.Settings), popped.Pod).run(w.ctx)).To(BeNil())
	w.Expect(w.cluster.Queue.Counts()).To(Equal(queue.Counts{Gated: 1}))
}

// TestRandomGroups schedules groups on random clusters: at least as many pods as are needed get a
// node, or none, and a refusal is right: no greedy order of the same pods would have placed enough
// if all are alike.
func TestRandomGroups(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 7))
			w := newGroupWorld(t)
			room := 0
			for i := range 1 + random.IntN(6) {
				cpus := 1 + random.IntN(4)
				room += cpus
				w.addNode(fmt.Sprintf("n%d", i), fmt.Sprint(cpus))
			}
			pods := 1 + random.IntN(14)
			needed := 1 + random.IntN(pods)
			w.setMinMember(needed)
			for i := range pods {
				w.addPod(fmt.Sprintf("p%d", i), "1")
			}
			placed := w.schedule()
			if room < needed {
				w.Expect(placed).To(BeEmpty())
				w.expectNothingLeft(pods)
				return
			}
			w.Expect(placed).To(HaveLen(min(room, pods)))
			w.Expect(w.ledger.reserved).To(HaveLen(len(placed)))
			w.end(placed)
		})
	}
}

// TestGroupsDoNotBlockEachOther lets several groups at a time compete for the room of a cluster, a
// thousand times. In the end each has all that it needs or nothing, and none waits for room that is
// free.
func TestGroupsDoNotBlockEachOther(t *testing.T) {
	w := newGroupWorld(t)
	const cpus = 12
	for i := range cpus / 4 {
		w.addNode(fmt.Sprintf("n%d", i), "4")
	}
	for round := range uint64(1000) {
		w.compete(rand.New(rand.NewPCG(round, 11)), cpus)
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
	}
}

func (w *groupWorld) compete(random *rand.Rand, cpus int) {
	needs := map[string]int{}
	var names []string
	for i := range 2 + random.IntN(3) {
		name := fmt.Sprintf("g%d", i)
		needs[name] = 1 + random.IntN(cpus)
		w.cluster.Groups.SetGroup(podgroup.Group{Key: podgroup.Key{Namespace: "default", Name: name},
			MinMember: needs[name]})
		for range needs[name] + random.IntN(3) {
			names = append(names, name)
		}
	}
	random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	var pods []*corev1.Pod
	for i, name := range names {
		pods = append(pods, w.addPod(fmt.Sprintf("p%d", i), "1", objects.MemberOf(name)))
		if random.IntN(4) == 0 {
			w.scheduleAll()
		}
	}
	w.scheduleAll()

	placed, free := map[string]int{}, cpus
	for i, pod := range pods {
		if assumed, err := w.cluster.Cache.IsAssumedPod(pod); err == nil && assumed {
			placed[names[i]]++
			free--
		}
	}
	for name, needed := range needs {
		if n := placed[name]; n == 0 {
			w.Expect(needed).To(BeNumerically(">", free), "%s could be placed", name)
		} else {
			w.Expect(n).To(BeNumerically(">=", needed), "%s has too few nodes", name)
		}
	}
	for _, pod := range pods {
		if assumed, err := w.cluster.Cache.GetPod(pod); err == nil {
			w.Expect(w.cluster.Cache.ForgetPod(logr.Discard(), assumed)).To(Succeed())
		}
		w.cluster.Groups.Forget(pod)
		w.cluster.Queue.Delete(logr.Discard(), pod)
		w.Expect(w.objects.Remove(pod)).To(Succeed())
	}
	w.ledger.reserved = nil
	w.expectNothingLeft(0)
}

// scheduleAll schedules until nobody is left to try.
func (w *groupWorld) scheduleAll() {
	for c := w.cluster.Queue.Counts(); c.Active > 0; c = w.cluster.Queue.Counts() {
		w.end(w.schedule())
	}
}

// TestNewNumbersAreNotWrittenToAllMembers counts the patches after two attempts that fail
// for one reason with other numbers.
func TestNewNumbersAreNotWrittenToAllMembers(t *testing.T) {
	const members = 1000
	w := newGroupWorld(t)
	w.addNode("n1", "2")
	w.setMinMember(members)
	for i := range members {
		w.addPod(fmt.Sprintf("m%d", i), "1")
	}
	pods := w.objects.Core().V1().Pods().Lister()
	var patches atomic.Int32
	client := &fake.Clientset{}
	client.AddReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patches.Add(1)
		patch := action.(clienttesting.PatchAction)
		old, err := pods.Pods(patch.GetNamespace()).Get(patch.GetName())
		w.Expect(err).NotTo(HaveOccurred())
		before, err := json.Marshal(old)
		w.Expect(err).NotTo(HaveOccurred())
		after, err := strategicpatch.StrategicMergePatch(before, patch.GetPatch(), old)
		w.Expect(err).NotTo(HaveOccurred())
		pod := &corev1.Pod{}
		w.Expect(json.Unmarshal(after, pod)).To(Succeed())
		return true, pod, w.objects.Put(pod)
	})
	attempt := func() int {
		patches.Store(0)
		statuses := failure.NewStatusWriter(client, pods, w.cluster.Cache, w.cluster.Queue)
		w.loop.Failures = &failure.Handler{Queue: w.cluster.Queue, Pods: pods, Statuses: statuses}
		statuses.Start(w.ctx)
		w.Expect(w.schedule()).To(BeEmpty())
		statuses.Close(w.ctx)
		return int(patches.Load())
	}
	w.Expect(attempt()).To(Equal(members))
	before := w.reasons["m0"]
	w.addNode("n2", "2")
	w.retry()
	w.Expect(attempt()).To(BeZero())
	w.Expect(w.reasons["m0"]).NotTo(Equal(before))
	w.setMinMember(2 * members)
	for i := range members {
		w.addPod(fmt.Sprintf("late%d", i), "1")
	}
	w.Expect(attempt()).To(Equal(members), "those that have no condition yet")
}

// TestAGroupThatLostAPod has a group that waits for room for one of its pods.
func TestAGroupThatLostAPod(t *testing.T) {
	w := newGroupWorld(t)
	w.addNode("n1", "3")
	w.setMinMember(4)
	for i := range 3 {
		w.cluster.Groups.SetAssigned(w.addRunning(fmt.Sprintf("m%d", i), "n1", "1", 0, objects.MemberOf(group.Name)))
	}
	w.addPod("m3", "1")
	w.Expect(w.schedule()).To(BeEmpty())
	w.Expect(w.reasons["m3"]).
		To(HavePrefix("3 of 4 pods are bound, the others wait for room: pod group default/g: 0 of 1 pods"))
}

// TestAMemberThatAnotherComponentHasBound has an attempt at a group with a pod that was bound, to
// the only node, after it was popped: the others are placed if they are enough.
func TestAMemberThatAnotherComponentHasBound(t *testing.T) {
	for needed, placed := range map[int][]string{2: {"a", "c"}, 3: nil} {
		w := newGroupWorld(t)
		w.addNode("n1", "8")
		w.setMinMember(needed)
		w.addPod("a", "1")
		bound := objects.Edited(w.addPod("b", "1"), func(pod *corev1.Pod) { pod.Spec.NodeName = "n1" })
		w.addPod("c", "1")
		w.Expect(w.cluster.Cache.AddPod(logr.Discard(), bound)).To(Succeed())
		w.Expect(w.end(w.schedule())).To(Equal(placed))
		w.Expect(w.ledger.reserved).To(HaveExactElements(placed))
		w.Expect(w.reasons["b"]).To(ContainSubstring("in the scheduler cache already"))
		w.Expect(w.cluster.Cache.UpdateSnapshot(logr.Discard(), w.cluster.Snapshot)).To(Succeed())
		node, err := w.cluster.Snapshot.NodeInfos().Get("n1")
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(node.GetPods()).To(HaveLen(1 + len(placed)))
		w.Expect(node.GetPods()[0].GetPod()).To(BeIdenticalTo(bound))
	}
}

// TestAReloadInTheMiddleOfAnAttempt changes or deletes the profile when the first pod of a group is
// reserved. The attempt goes on with the old instance, which closes when the last pod releases it.
func TestAReloadInTheMiddleOfAnAttempt(t *testing.T) {
	for name, test := range map[string]struct{ deleted, fits bool }{
		"the profile changes, and the group fits":            {fits: true},
		"the profile changes, and the group does not fit":    {},
		"the profile is deleted, and the group fits":         {deleted: true, fits: true},
		"the profile is deleted, and the group does not fit": {deleted: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newGroupWorld(t)
			other, swap := w.newCluster(), func(profiles map[string]*profile.Instance) {
				w.cluster.Store.Swap(logr.Discard(), profile.NewMap(profiles, ""), w.cluster.Queue)
			}
			defer other.Close()
			defer swap(nil)
			old, next := w.cluster.Profile, other.Profile
			w.loop.Failures = &failure.Handler{
				Queue: w.cluster.Queue, Pods: w.objects.Core().V1().Pods().Lister(),
				Statuses: podstatus.NewWriter(nil, nil),
				Recorder: func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
			}
			w.addNode("n1", "4")
			w.setMinMember(3)
			w.addPod("a", "1")
			w.addPod("b", "1")
			w.addPod("c", "1", func(pod *corev1.Pod) {
				if !test.fits {
					pod.Spec.NodeSelector = map[string]string{"disk": "ssd"}
				}
			})
			w.ledger.during = func() {
				w.ledger.during = nil
				profiles := map[string]*profile.Instance{}
				if !test.deleted {
					next.Acquire() // its own cluster has another reference
					profiles["mine"] = next
				}
				swap(profiles)
			}
			placed := w.schedule()
			w.Expect(w.ledger.during).To(BeNil())
			if test.fits {
				w.Expect(placed).To(HaveLen(3))
				for _, m := range placed {
					w.Expect(m.profile).To(BeIdenticalTo(old))
				}
				w.Expect(old.Closed()).NotTo(BeClosed())
				w.end(placed)
				w.Eventually(old.Closed()).Should(BeClosed())
				return
			}
			w.Expect(placed).To(BeEmpty())
			w.Eventually(old.Closed()).Should(BeClosed())
			if test.deleted {
				w.expectNothingLeft(0)
				return
			}
			w.expectNothingLeft(3)
			w.retry()
			popped := w.cluster.Queue.Pop(logr.Discard())
			w.Expect(popped.Group.Others).To(HaveLen(2))
			g := w.loop.newGroupCycle(&popped)
			w.Expect(g.Profile).To(BeIdenticalTo(next))
			for _, m := range g.members {
				m.release(logr.Discard())
			}
		})
	}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilnode "k8s.io/component-helpers/node/topology"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/test/sidebyside"
)

// contest is one case: both sides with the same cluster and the same profile, and the events in the
// cluster. Both sides receive all events, in the order and with the calls that informers and the
// scheduling loop would make.
type contest struct {
	t      testing.TB
	ctx    context.Context
	cancel context.CancelFunc
	seed   uint64
	// at names the current step of the case.
	at string
	*generator
	objects sidebyside.Objects
	theirs  *upstream
	ours    *ours
	// profile is the configuration of both.
	profile *sidebyside.Configuration
	// ordered means that each side has one worker, so that both process everything in the same
	// order.
	ordered bool
	count   counts
	// parted means that the two have deliberately acted differently; the case is over.
	parted bool

	nodes   map[string]*corev1.Node
	placed  map[types.UID]*corev1.Pod // confirmed by the API server
	assumed map[types.UID]*assumption
	queued  map[types.UID]*corev1.Pod
	claimed []*corev1.PersistentVolumeClaim
	// imagesMoved means that the number of nodes that have an image has changed.
	imagesMoved bool
	// zonesMoved means that a node has moved to another zone.
	zonesMoved bool
	// groups are the PodGroups of some of the pods on nodes.
	groups []*victimGroup
}

// assumption is a pod that is assumed on both sides and not confirmed.
type assumption struct {
	pod         *corev1.Pod
	their, mine fwk.CycleState
}

// counts counts the kinds of cases, so that a generator which makes only easy ones is noticed.
type counts map[string]int

func (c counts) add(other counts) {
	for key, n := range other {
		c[key] += n
	}
}

func (c counts) String() string {
	text := ""
	for _, key := range slices.Sorted(maps.Keys(c)) {
		text += fmt.Sprintf(" %s=%d", key, c[key])
	}
	return text
}

// newContest builds both sides. The caller closes them.
func newContest(t testing.TB, seed uint64) *contest {
	t.Helper()
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logr.Discard()))
	c := &contest{
		t: t, ctx: ctx, cancel: cancel, seed: seed, at: "building", generator: newGenerator(seed),
		objects: sidebyside.NewObjects(), count: counts{"cases": 1},
		nodes: map[string]*corev1.Node{}, placed: map[types.UID]*corev1.Pod{}, assumed: map[types.UID]*assumption{},
		queued: map[types.UID]*corev1.Pod{},
	}
	configuration, offset := c.configuration(), c.Int32N(1000)
	c.profile, c.ordered = configuration, configuration.Parallelism == 1
	var err error
	c.theirs, err = newUpstream(ctx, c.objects, configuration, offset)
	c.must(err)
	c.ours, err = newOurs(ctx, c.objects, configuration, offset)
	c.must(err)
	c.must(c.objects.Put(c.surroundings()...))
	return c
}

// close ends both sides. It is not a Cleanup of the test: a parallel test keeps those, and
// everything that they refer to, until the last one has ended.
func (c *contest) close() {
	c.cancel()
	c.ours.Close()
	c.theirs.Close()
}

func (c *contest) fatalf(format string, arguments ...any) {
	c.t.Helper()
	c.t.Fatalf("seed %d, %d nodes, %s: %s", c.seed, len(c.nodes), c.at, fmt.Sprintf(format, arguments...))
}

func (c *contest) must(err error) {
	c.t.Helper()
	if err != nil {
		c.fatalf("%v", err)
	}
}

func (c *contest) mustStatus(status *fwk.Status) {
	c.t.Helper()
	if !status.IsSuccess() {
		c.fatalf("%v", status.AsError())
	}
}

// mustBoth expects that both sides return an error, or neither.
func (c *contest) mustBoth(theirs, mine error) {
	c.t.Helper()
	if theirs != nil || mine != nil {
		c.fatalf("kube-scheduler: %v, livesched: %v", theirs, mine)
	}
}

// eventually polls: evictions run in the background.
func (c *contest) eventually(what string, condition func() bool) {
	c.t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-deadline:
			c.fatalf("not within a minute: %s", what)
		case <-tick.C:
		}
	}
}

// refresh updates kube-scheduler where it lags behind and livesched does not
// (docs/compare/kube-scheduler.md): there, a node keeps the numbers of nodes that have its images
// from its own last change, and after a change of its zone it keeps its place in the list of nodes
// until a node is added or removed.
func (c *contest) refresh() {
	c.t.Helper()
	theirs := c.theirs.Scheduler.Cache
	if c.imagesMoved {
		for _, node := range c.nodeList() {
			theirs.UpdateNode(logr.Discard(), node, node)
		}
	}
	if c.zonesMoved {
		passing := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "passing"}}
		theirs.AddNode(logr.Discard(), passing)
		c.must(theirs.UpdateSnapshot(logr.Discard(), c.theirs.Framework.SnapshotSharedLister().(*schedcache.Snapshot)))
		c.must(theirs.RemoveNode(logr.Discard(), passing))
	}
	c.imagesMoved, c.zonesMoved = false, false
}

func (c *contest) nodeList() []*corev1.Node {
	list := make([]*corev1.Node, 0, len(c.nodes))
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		list = append(list, c.nodes[name])
	}
	return list
}

// fill makes the cluster: nodes, volumes, and pods on nodes, whether they fit or not.
func (c *contest) fill(nodes, podsPerNode int) {
	c.t.Helper()
	for range nodes {
		c.addNode(c.node())
	}
	list := c.nodeList()
	if c.volumes {
		c.must(c.objects.Put(c.storage(list)...))
	}
	for _, node := range list {
		for range c.IntN(podsPerNode + 1) {
			c.place(c.newPod(), node.Name)
		}
	}
	for range c.IntN(4) {
		c.enqueue(c.newPod(), pick(c.generator, list).Name)
	}
}

// newPod makes a pod with the claims that it needs.
func (c *contest) newPod() *corev1.Pod {
	c.t.Helper()
	pod := c.pod(c.nodeList())
	objects := c.claims(pod, c.claimed)
	c.must(c.objects.Put(objects...))
	for _, obj := range objects {
		if claim, ok := obj.(*corev1.PersistentVolumeClaim); ok {
			c.claimed = append(c.claimed, claim)
		}
	}
	return pod
}

func (c *contest) addNode(node *corev1.Node) {
	c.t.Helper()
	c.nodes[node.Name], c.imagesMoved = node, true
	c.must(c.objects.Put(node))
	c.theirs.Scheduler.Cache.AddNode(logr.Discard(), node)
	c.ours.Cache.AddNode(logr.Discard(), node)
}

func (c *contest) updateNode(node *corev1.Node) {
	c.t.Helper()
	old := c.nodes[node.Name]
	c.nodes[node.Name], c.imagesMoved = node, true
	c.zonesMoved = c.zonesMoved || utilnode.GetZoneKey(old) != utilnode.GetZoneKey(node)
	c.must(c.objects.Put(node))
	c.theirs.Scheduler.Cache.UpdateNode(logr.Discard(), old, node)
	c.ours.Cache.UpdateNode(logr.Discard(), old, node)
}

func (c *contest) removeNode(name string) {
	c.t.Helper()
	node := c.nodes[name]
	delete(c.nodes, name)
	c.imagesMoved = true
	c.must(c.objects.Remove(node))
	c.mustBoth(c.theirs.Scheduler.Cache.RemoveNode(logr.Discard(), node), c.ours.Cache.RemoveNode(logr.Discard(), node))
}

// place runs the pod on the node, as if another scheduler had bound it.
func (c *contest) place(pod *corev1.Pod, node string) {
	c.t.Helper()
	pod = pod.DeepCopy()
	pod.Spec.NodeName = node
	c.join(pod)
	if c.chance(4) {
		terminate(pod, c.chance(50))
	}
	c.placed[pod.UID] = pod
	c.must(c.objects.Put(pod))
	c.mustBoth(c.theirs.Scheduler.Cache.AddPod(logr.Discard(), pod), c.ours.Cache.AddPod(logr.Discard(), pod))
}

// terminate marks the pod as being deleted, by a preemption or for another reason.
func terminate(pod *corev1.Pod, preempted bool) {
	pod.DeletionTimestamp = pod.Status.StartTime
	if preempted {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler,
		})
	}
}

func (c *contest) updatePod(pod *corev1.Pod) {
	c.t.Helper()
	old := c.placed[pod.UID]
	c.placed[pod.UID] = pod
	c.must(c.objects.Put(pod))
	c.mustBoth(c.theirs.Scheduler.Cache.UpdatePod(logr.Discard(), old, pod),
		c.ours.Cache.UpdatePod(logr.Discard(), old, pod))
}

func (c *contest) removePod(pod *corev1.Pod) {
	c.t.Helper()
	delete(c.placed, pod.UID)
	c.must(c.objects.Remove(pod))
	c.mustBoth(c.theirs.Scheduler.Cache.RemovePod(logr.Discard(), pod), c.ours.Cache.RemovePod(logr.Discard(), pod))
}

// enqueue puts the pod into both queues, with a nominated node or without.
func (c *contest) enqueue(pod *corev1.Pod, nominated string) {
	c.t.Helper()
	pod = pod.DeepCopy()
	pod.Status.NominatedNodeName = nominated
	pod.ResourceVersion += "1"
	if old, ok := c.queued[pod.UID]; ok {
		c.queued[pod.UID] = pod
		c.must(c.objects.Put(pod))
		c.theirs.Scheduler.SchedulingQueue.Update(c.ctx, old, pod)
		c.ours.Queue.Update(logr.Discard(), old, pod)
		return
	}
	c.queued[pod.UID] = pod
	c.must(c.objects.Put(pod))
	c.theirs.Scheduler.SchedulingQueue.Add(c.ctx, pod)
	c.ours.Queue.Add(logr.Discard(), pod)
}

func (c *contest) dequeue(pod *corev1.Pod) {
	if _, ok := c.queued[pod.UID]; !ok {
		return
	}
	delete(c.queued, pod.UID)
	c.theirs.Scheduler.SchedulingQueue.Delete(logr.Discard(), pod)
	c.ours.Queue.Delete(logr.Discard(), pod)
}

// assume does what the scheduling loop does with a decision: both sides assume the pod on the node
// and reserve its volumes there.
func (c *contest) assume(pod *corev1.Pod, host string, their, mine fwk.CycleState) {
	c.t.Helper()
	c.dequeue(pod)
	pod = pod.DeepCopy()
	pod.Spec.NodeName = host
	info, err := schedframework.NewPodInfo(pod)
	c.must(err)
	c.mustBoth(c.theirs.Scheduler.Cache.AssumePod(logr.Discard(), pod), c.ours.Cache.AssumePod(logr.Discard(), info))
	theirs := c.theirs.Framework.RunReservePluginsReserve(c.ctx, their, pod, host)
	own := c.ours.Profile.Framework.RunReservePluginsReserve(c.ctx, mine, pod, host)
	c.equal("reserve", describe(theirs), describe(own))
	a := &assumption{pod: pod, their: their, mine: mine}
	c.assumed[pod.UID] = a
	if !theirs.IsSuccess() {
		c.forget(a)
	}
}

// confirm reports that the API server has the pod on its node.
func (c *contest) confirm(a *assumption) {
	c.t.Helper()
	pod := a.pod.DeepCopy()
	pod.ResourceVersion += "1"
	pod.Status.Phase = corev1.PodRunning
	delete(c.assumed, pod.UID)
	c.placed[pod.UID] = pod
	c.must(c.objects.Put(pod))
	c.mustBoth(c.theirs.Scheduler.Cache.AddPod(logr.Discard(), pod), c.ours.Cache.AddPod(logr.Discard(), pod))
}

// forget undoes an assumption, as after a failed binding.
func (c *contest) forget(a *assumption) {
	c.t.Helper()
	delete(c.assumed, a.pod.UID)
	c.theirs.Framework.RunReservePluginsUnreserve(c.ctx, a.their, a.pod, a.pod.Spec.NodeName)
	c.ours.Profile.Framework.RunReservePluginsUnreserve(c.ctx, a.mine, a.pod, a.pod.Spec.NodeName)
	c.mustBoth(c.theirs.Scheduler.Cache.ForgetPod(logr.Discard(), a.pod), c.ours.Cache.ForgetPod(logr.Discard(), a.pod))
}

// promote sometimes makes the pod a preemptor.
func (c *contest) promote(pod *corev1.Pod) {
	if c.crowded && c.chance(75) || c.chance(20) {
		pod.Spec.Priority = ptr.To(int32(25 + 10*c.IntN(3)))
	}
}

// put stores objects that only plugins read.
func (c *contest) put(objects ...runtime.Object) {
	c.t.Helper()
	c.must(c.objects.Put(objects...))
}

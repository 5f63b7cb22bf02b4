// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package debugger

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/cache"
	"github.com/livesched/livesched/internal/scheduler/devices"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/test/objects"
)

var quiet = klog.Logger{}

// world is a cluster, and a real cache and queue that agree with it: two nodes, a bound pod, an
// assumed one, and one pod in each of several places of the queue.
type world struct {
	t     *testing.T
	nodes map[string]*corev1.Node
	pods  map[string]*corev1.Pod // by name
	cache *cache.Cache
	queue *queue.Queue
	gate  *gate
	// claimed are the devices of claims of the API server, and taken those of claims that plugins
	// see.
	claimed, taken []string
}

const served = "served"

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, nodes: map[string]*corev1.Node{}, pods: map[string]*corev1.Pod{}, cache: cache.New(),
		queue: queue.New(queue.Config{DeferredResizes: true}),
		gate:  &gate{hanging: make(chan struct{}), proceed: make(chan struct{})}}
	t.Cleanup(w.queue.Close)
	w.queue.Reconfigure(quiet, &queue.Settings{Profiles: map[string]*queue.ProfileSettings{served: {
		PreEnqueue:     []fwk.PreEnqueuePlugin{w.gate},
		InitialBackoff: time.Hour, MaxBackoff: time.Hour,
	}}}, nil)
	for _, name := range []string{"n1", "n2"} {
		node := newNode(name)
		w.nodes[name] = node
		w.cache.AddNode(quiet, node)
	}
	w.bind("bound", "n1")
	w.bind("another", "n1")
	w.assume("assumed", "n2")
	w.fly("flying")
	w.fail("failed")
	w.enqueue(newPod("waiting", ""))
	w.enqueue(objects.Edited(newPod("nominated", ""), nominated("n1")))
	w.enqueue(objects.Edited(newPod("gated", ""), func(p *corev1.Pod) {
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "shut"}}
		p.Status.NominatedNodeName = "n1"
	}))
	w.exists(objects.Edited(newPod("other-scheduler", ""), func(p *corev1.Pod) { p.Spec.SchedulerName = "others" }))
	w.exists(objects.Edited(newPod("deleting", ""), func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }))
	w.exists(objects.Edited(newPod("ended", "n1"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }))
	return w
}

func (w *world) exists(pod *corev1.Pod) *corev1.Pod {
	w.pods[pod.Name] = pod
	return pod
}

// change changes the API server's object.
func (w *world) change(name string, edit func(*corev1.Pod)) {
	w.pods[name] = objects.Edited(w.pods[name], edit)
}

func (w *world) bind(name, node string) {
	w.must(w.cache.AddPod(quiet, w.exists(newPod(name, node))))
}

// assume puts a pod on a node that is not bound in the API server.
func (w *world) assume(name, node string) {
	w.exists(newPod(name, ""))
	w.must(w.cache.AssumePod(quiet, &schedframework.PodInfo{Pod: newPod(name, node)}))
}

func (w *world) enqueue(pod *corev1.Pod) { w.queue.Add(quiet, w.exists(pod)) }

func (w *world) fly(name string) *schedframework.QueuedPodInfo {
	w.enqueue(newPod(name, ""))
	popped := w.queue.Pop(quiet).Pod
	return popped
}

// fail ends an attempt at a pod with an error.
func (w *world) fail(name string) {
	_, err := w.queue.Requeue(quiet, w.fly(name), nil)
	w.must(err)
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) cluster() *Cluster {
	c := &Cluster{}
	for _, node := range w.nodes {
		c.AddNode(node)
	}
	for _, pod := range w.pods {
		c.AddPod(pod)
	}
	c.Devices = allocations(w.claimed)
	return c
}

func (w *world) state() *State {
	return &State{Cache: w.cache.Dump(), Queue: w.queue.Dump(), Nominations: w.queue.Nominator().Dump(),
		Served: sets.New(served), DeferredResizes: w.queue.DeferredResizes(), Devices: allocations(w.taken)}
}

// allocations returns those of claims that have one device each.
func allocations(named []string) devices.Allocations {
	all := devices.Allocations{}
	for _, name := range named {
		all.Add(newClaim(name))
	}
	return all
}

// newClaim returns a claim that has a device.
func newClaim(device string) *resourcev1.ResourceClaim {
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: device}}
	claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{{Driver: "driver", Pool: "pool", Device: device}}}}
	return claim
}

// gate gates pods with scheduling gates. For a pod with the gate "hang", it hangs until it may
// proceed.
type gate struct{ hanging, proceed chan struct{} }

var _ fwk.PreEnqueuePlugin = &gate{}

func (*gate) Name() string { return "Gate" }

func (g *gate) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	if len(pod.Spec.SchedulingGates) == 0 {
		return nil
	}
	if pod.Spec.SchedulingGates[0].Name == "hang" {
		close(g.hanging)
		<-g.proceed
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "gated")
}

func newNode(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"),
			corev1.ResourcePods: resource.MustParse("110"),
		}},
	}
}

// newPod returns a pod of 100m and 1Gi whose UID is its name.
func newPod(name, node string) *corev1.Pod {
	pod := objects.Stored("ns", name, on(node))
	pod.Spec.SchedulerName = served
	pod.Spec.Containers = []corev1.Container{{Name: "c", Resources: objects.Requests("100m", "1Gi")}}
	return pod
}

func on(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }

func deferred(p *corev1.Pod) {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Reason: corev1.PodReasonDeferred}}
}

func nominated(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.NominatedNodeName = node }
}

func requesting(name corev1.ResourceName, quantity string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests[name] = resource.MustParse(quantity) }
}

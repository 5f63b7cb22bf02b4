// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	kubefeatures "k8s.io/kubernetes/pkg/features"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/sidebyside"
	"github.com/livesched/livesched/test/workload"
)

// devicesPerNode is the number of devices of each node in BenchmarkDecideDevices.
const devicesPerNode = 8

// deviceKind is a kind of pods and of devices.
type deviceKind struct {
	name string
	pod  func(*corev1.Pod)
	// request changes the request of each claim, device the i-th device of a node, and result the
	// allocation of the i-th device. counters is true if each device is half of a chip.
	request  func(*resourcev1.ExactDeviceRequest)
	device   func(i int, device *resourcev1.Device)
	result   func(i int, result *resourcev1.DeviceRequestAllocationResult)
	counters bool
	// full means that all devices are taken but those of a node in a hundred.
	full bool
	// none means that all devices are taken, so that pods fit nowhere.
	none bool
}

// taken returns the number of devices that are taken before the pods come.
func (k *deviceKind) taken(nodes int) int {
	if k.none {
		return nodes * devicesPerNode
	}
	if k.full {
		return nodes*devicesPerNode - (nodes/100 + 1)
	}
	return nodes * devicesPerNode / 2
}

const gpuMemory resourcev1.QualifiedName = "memory"

var deviceKinds = []deviceKind{
	{name: "claim"},
	{name: "full", full: true},
	{name: "none", none: true},
	// The pods are spread by default, as those of a Service.
	{name: "spread", pod: func(pod *corev1.Pod) { pod.Labels = workload.Service().Spec.Selector }},
	// A claim takes some of the memory of a device.
	{
		name: "capacity",
		request: func(r *resourcev1.ExactDeviceRequest) {
			r.Capacity = &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{
				gpuMemory: resource.MustParse("40Gi")}}
		},
		device: func(_ int, d *resourcev1.Device) { d.AllowMultipleAllocations = ptr.To(true) },
		result: func(i int, r *resourcev1.DeviceRequestAllocationResult) {
			r.ShareID = ptr.To(types.UID(fmt.Sprintf("%s/%d", r.Pool, i)))
			r.ConsumedCapacity = map[resourcev1.QualifiedName]resource.Quantity{gpuMemory: resource.MustParse("40Gi")}
		},
	},
	// Two devices are the halves of a chip.
	{
		name: "partition", counters: true,
		device: func(i int, d *resourcev1.Device) {
			d.ConsumesCounters = []resourcev1.DeviceCounterConsumption{{CounterSet: fmt.Sprint("chip-", i/2),
				Counters: map[string]resourcev1.Counter{"slices": {Value: resource.MustParse("1")}}}}
		},
	},
}

// BenchmarkDecideDevices measures decisions about pods with a claim each, for one of the devices of
// a node, in a cluster half of whose devices are taken, or nearly all: with livesched, and with
// kube-scheduler, which samples nodes by default. Reserve and what follows is not measured.
func BenchmarkDecideDevices(b *testing.B) {
	// Without it, kube-scheduler reads the slices that the benchmark has filled in.
	featuregatetesting.SetFeatureGateDuringTest(b, utilfeature.DefaultFeatureGate, kubefeatures.DRADeviceTaintRules,
		false)
	for i := range deviceKinds {
		for _, nodes := range []int{500, 5000} {
			for _, contender := range []string{"livesched", "kube-scheduler"} {
				b.Run(fmt.Sprintf("%s/%d/%s", deviceKinds[i].name, nodes, contender), func(b *testing.B) {
					measureDeviceDecisions(b, &deviceKinds[i], nodes, contender)
				})
			}
		}
	}
}

func measureDeviceDecisions(b *testing.B, kind *deviceKind, nodes int, contender string) {
	c := newDeviceCluster(b, kind, contender, nodes)
	defer c.close()
	c.place() // a scheduler learns the kind of pod
	c.leave()
	c.spent = 0
	for b.Loop() {
		c.place()
		c.leave()
	}
	b.ReportMetric(float64(c.spent.Microseconds())/float64(b.N), "us/decision")
}

// deviceCluster is the cluster of one contender. Pods come and go in turn.
type deviceCluster struct {
	testing.TB
	kind   *deviceKind
	ctx    context.Context
	decide func(*corev1.Pod) sidebyside.Decision
	// framework reserves devices, which claims has.
	framework interface {
		RunReservePluginsReserve(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status
	}
	claims fwk.ResourceClaimTracker
	add    func(*corev1.Pod) error
	remove func(*corev1.Pod) error

	addNode    func(*corev1.Node)
	removeNode func(*corev1.Node) error
	objects    sidebyside.Objects
	close      func()
	// spent is the time of all decisions.
	spent   time.Duration
	placed  []*corev1.Pod
	next    int
	version int
	// numClaims are the claims of the pods, which take them in turn.
	numClaims int
}

// newDeviceCluster returns a cluster in which the devices of a kind are taken that pods have before
// the measured ones come.
func newDeviceCluster(t testing.TB, kind *deviceKind, contender string, nodes int) *deviceCluster {
	t.Helper()
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logr.Discard()))
	c := &deviceCluster{TB: t, kind: kind, ctx: ctx, version: 1}
	var listed []runtime.Object
	c.numClaims = kind.taken(nodes) + 1
	for i := range c.numClaims {
		claim := objects.DeviceClaim(claimName(i), ofPlain)
		claim.UID, claim.ResourceVersion = types.UID(claim.Name), "1"
		request := claim.Spec.Devices.Requests[0].Exactly
		request.AllocationMode, request.Count = resourcev1.DeviceAllocationModeExactCount, 1
		if kind.request != nil {
			kind.request(request)
		}
		listed = append(listed, claim)
	}
	all := sidebyside.NewObjectsOf(listed...)
	c.objects = all
	configuration := &sidebyside.Configuration{Parallelism: 16, Profile: configv1.KubeSchedulerProfile{
		SchedulerName: ptr.To(schedulerName)}}
	if contender == "kube-scheduler" {
		k, err := sidebyside.NewKubeScheduler(ctx, all, configuration, nil)
		c.must(err)
		c.addNode = func(node *corev1.Node) { k.Scheduler.Cache.AddNode(logr.Discard(), node) }
		c.decide, c.framework, c.claims = k.Decide, k.Framework, k.Framework.SharedDRAManager().ResourceClaims()
		c.add = func(pod *corev1.Pod) error { return k.Scheduler.Cache.AddPod(logr.Discard(), pod) }
		c.remove = func(pod *corev1.Pod) error { return k.Scheduler.Cache.RemovePod(logr.Discard(), pod) }
		c.removeNode = func(node *corev1.Node) error { return k.Scheduler.Cache.RemoveNode(logr.Discard(), node) }
		c.close = func() { cancel(); k.Close() }
	} else {
		l, err := sidebyside.NewLivesched(ctx, all, configuration, sidebyside.FastPath, nil)
		c.must(err)
		c.addNode = func(node *corev1.Node) { l.Cache.AddNode(logr.Discard(), node) }
		c.decide, c.framework, c.claims = l.Decide, l.Profile.Framework, l.Devices.ResourceClaims()
		c.add = func(pod *corev1.Pod) error {
			info, err := schedframework.NewPodInfo(pod)
			if err == nil {
				err = l.Cache.AssumePod(logr.Discard(), info)
			}
			if err != nil {
				return err
			}
			return l.Cache.AddPod(logr.Discard(), pod)
		}
		c.remove = func(pod *corev1.Pod) error { return l.Cache.RemovePod(logr.Discard(), pod) }
		c.removeNode = func(node *corev1.Node) error { return l.Cache.RemoveNode(logr.Discard(), node) }
		c.close = func() { cancel(); l.Close() }
	}
	class := objects.DeviceClass(ofPlain)
	class.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
		Expression: fmt.Sprintf("device.driver == %q", ofPlain)}}}
	c.must(all.Put(class, workload.Service()))
	for i := range nodes {
		node := workload.Node(i)
		c.addNode(node)
		for _, slice := range kind.slices(node.Name) {
			c.must(all.Put(slice))
		}
	}
	go all.Resource().V1().ResourceClaims().Informer().RunWithContext(ctx)
	for i := range listed {
		for { // the informer delivers each claim within milliseconds
			if _, err := c.claims.Get(metav1.NamespaceDefault, claimName(i)); err == nil {
				break
			}
			c.must(ctx.Err())
		}
	}
	for i := range kind.taken(nodes) {
		c.fill(workload.NodeName(i%nodes), i/nodes)
	}
	return c
}

func claimName(i int) string { return fmt.Sprint("claim-", i) }

// slices returns the devices of a node.
func (k *deviceKind) slices(node string) []*resourcev1.ResourceSlice {
	slice := func(suffix string) *resourcev1.ResourceSlice {
		return &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node + suffix},
			Spec: resourcev1.ResourceSliceSpec{Driver: ofPlain, NodeName: &node,
				Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1}}}
	}
	all := []*resourcev1.ResourceSlice{slice("")}
	for i := range devicesPerNode {
		device := resourcev1.Device{Name: fmt.Sprint("gpu-", i),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"model": {StringValue: ptr.To("h100")}},
			Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{
				gpuMemory: {Value: resource.MustParse("80Gi")}}}
		if k.device != nil {
			k.device(i, &device)
		}
		all[0].Spec.Devices = append(all[0].Spec.Devices, device)
	}
	if !k.counters {
		return all
	}
	counters := slice("-counters")
	for i := range devicesPerNode / 2 {
		counters.Spec.SharedCounters = append(counters.Spec.SharedCounters, resourcev1.CounterSet{
			Name:     fmt.Sprint("chip-", i),
			Counters: map[string]resourcev1.Counter{"slices": {Value: resource.MustParse("2")}}})
	}
	all = append(all, counters)
	for _, each := range all {
		each.Spec.Pool.ResourceSliceCount = 2
	}
	return all
}

func (c *deviceCluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// newPod returns the next pod and its claim.
func (c *deviceCluster) newPod() (*corev1.Pod, *resourcev1.ResourceClaim) {
	name, claimed := fmt.Sprint("pod-", c.next), claimName(c.next%c.numClaims)
	c.next++
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name,
		UID: types.UID(name)}, Spec: corev1.PodSpec{SchedulerName: schedulerName, Containers: []corev1.Container{{
		Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("10m")}}}}}}
	objects.UsingDevices(claimed)(pod)
	if c.kind.pod != nil {
		c.kind.pod(pod)
	}
	claim, err := c.claims.Get(metav1.NamespaceDefault, claimed)
	c.must(err)
	return pod, claim
}

// fill binds a pod to a node, with one of its devices.
func (c *deviceCluster) fill(node string, device int) {
	pod, claim := c.newPod()
	result := resourcev1.DeviceRequestAllocationResult{Request: "device", Driver: ofPlain, Pool: node,
		Device: fmt.Sprint("gpu-", device)}
	if c.kind.result != nil {
		c.kind.result(device, &result)
	}
	c.bind(pod, node, claim, &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{result}}})
}

// place decides about a pod, and binds it with its device.
func (c *deviceCluster) place() {
	pod, claim := c.newPod()
	start := time.Now()
	d := c.decide(pod)
	c.spent += time.Since(start)
	if c.kind.none {
		if !errors.As(d.Err, new(*schedframework.FitError)) {
			c.Fatalf("the pod fits on %q: %v", d.Host, d.Err)
		}
		c.next-- // the others have the other claims
		return
	}
	c.must(d.Err)
	c.must(c.framework.RunReservePluginsReserve(c.ctx, d.State, pod, d.Host).AsError())
	c.bind(pod, d.Host, claim, c.claims.GetPendingAllocation(claim.UID))
	c.claims.MaybeRemoveClaimPendingAllocation(claim.UID, true)
}

func (c *deviceCluster) bind(pod *corev1.Pod, node string, claim *resourcev1.ResourceClaim,
	allocation *resourcev1.AllocationResult) {
	c.update(claim, allocation)
	pod.Spec.NodeName = node
	c.must(c.add(pod))
	c.placed = append(c.placed, pod)
}

// leave removes the pod that was placed first, and frees its device.
func (c *deviceCluster) leave() {
	if c.kind.none {
		return
	}
	pod := c.placed[0]
	c.placed = c.placed[1:]
	c.must(c.remove(pod))
	claim, err := c.claims.Get(metav1.NamespaceDefault, pod.Spec.ResourceClaims[0].Name)
	c.must(err)
	c.update(claim, nil)
}

func (c *deviceCluster) update(claim *resourcev1.ResourceClaim, allocation *resourcev1.AllocationResult) {
	c.version++
	claim = claim.DeepCopy()
	claim.ResourceVersion, claim.Status.Allocation = strconv.Itoa(c.version), allocation
	c.must(c.claims.AssumeClaimAfterAPICall(claim))
}

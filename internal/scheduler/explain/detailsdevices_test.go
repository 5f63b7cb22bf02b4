// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	configv1 "k8s.io/kube-scheduler/config/v1"
	kubefeatures "k8s.io/kubernetes/pkg/features"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/explain"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/sidebyside"
)

const (
	gpuClass  = "gpu"
	gpuDriver = "gpu.example.com"
	memory    = resourcev1.QualifiedName("memory")
)

// newDeviceCluster returns a cluster with claims, and with a DeviceClass of a driver's devices.
func newDeviceCluster(t *testing.T, claims ...*resourcev1.ResourceClaim) *cluster {
	t.Helper()
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, kubefeatures.DRADeviceTaintRules,
		false) // otherwise the plugin does not read the slices that the test fills in
	var listed []runtime.Object
	for _, claim := range claims {
		claim.UID = types.UID(claim.Name)
		listed = append(listed, claim)
	}
	c := &cluster{TB: t, objects: sidebyside.NewObjectsOf(listed...)}
	var err error
	c.Livesched, err = sidebyside.NewLivesched(t.Context(), c.objects, &sidebyside.Configuration{
		Profile: configv1.KubeSchedulerProfile{SchedulerName: ptr.To("mine")}, Parallelism: 16,
	}, sidebyside.ScalarPath, nil)
	c.must(err)
	t.Cleanup(c.Livesched.Close)
	class := objects.DeviceClass(gpuClass)
	class.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
		Expression: fmt.Sprintf("device.driver == %q", gpuDriver)}}}
	c.must(c.objects.Put(class))
	c.must(c.RunClaims(t.Context(), &c.objects, claims))
	return c
}

// devices adds a slice with devices of a model on a node.
func (c *cluster) devices(driver, node string, n int, changes ...func(*resourcev1.Device)) {
	c.Helper()
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: driver + "-" + node},
		Spec: resourcev1.ResourceSliceSpec{Driver: driver, NodeName: &node,
			Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1, Generation: 1}}}
	for i := range n {
		device := resourcev1.Device{Name: fmt.Sprint("gpu-", i),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"model": {StringValue: ptr.To("a100")}},
			Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{
				memory: {Value: resource.MustParse("80Gi")}}}
		for _, change := range changes {
			change(&device)
		}
		slice.Spec.Devices = append(slice.Spec.Devices, device)
	}
	c.must(c.objects.Put(slice))
}

// taken returns a claim that has a device of a node, for a pod.
func taken(pod, node string, device int) *resourcev1.ResourceClaim {
	claim := objects.DeviceClaim(pod, gpuClass)
	claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{{Request: "device", Driver: gpuDriver, Pool: node,
			Device: fmt.Sprint("gpu-", device)}}}}
	claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: pod,
		UID: types.UID(pod)}}
	return claim
}

// wanting returns a claim for devices.
func wanting(name string, changes ...func(*resourcev1.ExactDeviceRequest)) *resourcev1.ResourceClaim {
	claim := objects.DeviceClaim(name, gpuClass)
	request := claim.Spec.Devices.Requests[0].Exactly
	request.AllocationMode, request.Count = resourcev1.DeviceAllocationModeExactCount, 1
	for _, change := range changes {
		change(request)
	}
	return claim
}

// requesting makes a request ask for a capacity of a device.
func requesting(name resourcev1.QualifiedName, quantity string) func(*resourcev1.ExactDeviceRequest) {
	return func(r *resourcev1.ExactDeviceRequest) {
		r.Capacity = &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{
			name: resource.MustParse(quantity)}}
	}
}

func TestWhyNoDevicesAreAllocated(t *testing.T) {
	worn := func(device *resourcev1.Device) {
		device.Taints = []resourcev1.DeviceTaint{{Key: "example.com/worn",
			Effect: resourcev1.DeviceTaintEffectNoSchedule}}
	}
	shareable := func(device *resourcev1.Device) { device.AllowMultipleAllocations = ptr.To(true) }
	share := taken("sharing", "n5", 0)
	result := &share.Status.Allocation.Devices.Results[0]
	result.ShareID = ptr.To(types.UID("share"))
	result.ConsumedCapacity = map[resourcev1.QualifiedName]resource.Quantity{memory: resource.MustParse("50Gi")}
	selecting := func(model string) func(*resourcev1.ExactDeviceRequest) {
		return func(r *resourcev1.ExactDeviceRequest) {
			r.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
				Expression: fmt.Sprintf("device.attributes[%q].model == %q", gpuDriver, model)}}}
		}
	}
	c := newDeviceCluster(t, share,
		taken("a", "n1", 0), taken("b", "n1", 1), taken("c", "n2", 0), taken("d", "n2", 1), taken("e", "n3", 0),
		wanting("one"), wanting("h100", selecting("h100")),
		wanting("three", func(r *resourcev1.ExactDeviceRequest) { r.Count = 3 }),
		wanting("all", func(r *resourcev1.ExactDeviceRequest) {
			r.AllocationMode, r.Count = resourcev1.DeviceAllocationModeAll, 0
		}),
		wanting("large", requesting(memory, "40Gi")), wanting("huge", requesting(memory, "100Gi")),
		wanting("cores", requesting("cores", "1")))
	for i := range 6 {
		c.node(fmt.Sprint("n", i+1), "gpu", "8", "8Gi")
	}
	c.devices(gpuDriver, "n1", 2)
	c.devices(gpuDriver, "n2", 2)
	c.devices(gpuDriver, "n3", 2, worn)
	c.devices("other.example.com", "n4", 2)
	for name, node := range map[string]string{"a": "n1", "b": "n1", "c": "n2", "d": "n2", "e": "n3", "sharing": "n5"} {
		c.run(pod(name, "1", "1Gi", objects.UsingDevices(name)), node)
	}
	const none = "3 DeviceNotAvailable: no device of the DeviceClass gpu"
	for _, test := range []struct {
		claim string
		want  []string
		freed bool
	}{
		{"one", []string{"2 DeviceNotAvailable: no free device of the DeviceClass gpu: 4 in use",
			"1 DeviceNotAvailable: no free device of the DeviceClass gpu: 1 in use, 1 tainted", none}, true},
		{"h100", []string{
			"3 DeviceNotAvailable: no device of the DeviceClass gpu meets the selectors of the ResourceClaim h100",
			none}, false},
		{"three", []string{
			"2 DeviceNotAvailable: fewer than 3 free devices of the DeviceClass gpu on a node: 4 in use",
			"1 DeviceNotAvailable: fewer than 3 free devices of the DeviceClass gpu on a node: 1 in use, 1 tainted",
			none}, false},
		{"all", []string{"2 DeviceNotAvailable: not all devices of the DeviceClass gpu are free: 4 in use",
			"1 DeviceNotAvailable: not all devices of the DeviceClass gpu are free: 1 in use, 1 tainted", none}, true},
	} {
		x := c.explain(explain.Pending{Pod: pod("p", "1", "1Gi", objects.UsingDevices(test.claim))})
		got := detailsOf(x)
		slices.Sort(got)
		slices.Sort(test.want)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got): %s", test.claim, diff)
		}
		if freed := x.Verdict == v1alpha1.VerdictFitsWhenFreed; freed != test.freed {
			t.Errorf("%s: got %s: %s", test.claim, x.Verdict, x.Message)
		}
	}
	c.devices(gpuDriver, "n5", 1, shareable)
	for claim, state := range map[string]string{"large": "with too little capacity left",
		"one": "with too little capacity left", "huge": "too small", "cores": "too small"} {
		x := c.explain(explain.Pending{Pod: pod("p", "1", "1Gi", objects.UsingDevices(claim))})
		want := "1 DeviceNotAvailable: no free device of the DeviceClass gpu: 1 " + state
		if got := detailsOf(x); !slices.Contains(got, want) {
			t.Errorf("%s: got %q, want among them %q", claim, got, want)
		}
	}
}

// TestPodsWhoseDevicesWouldDo: the pods that end give back their devices, too.
func TestPodsWhoseDevicesWouldDo(t *testing.T) {
	c := newDeviceCluster(t, taken("a", "n1", 0), wanting("one"))
	c.node("n1", "gpu", "8", "8Gi")
	c.devices(gpuDriver, "n1", 1)
	c.run(pod("a", "1", "1Gi", objects.UsingDevices("a"), func(p *corev1.Pod) { p.Spec.Priority = ptr.To(int32(-1)) }),
		"n1")
	x := c.explain(explain.Pending{Pod: pod("p", "1", "1Gi", objects.UsingDevices("one"))})
	if want := "None of 1 nodes takes the pod now, because of devices in use. It would fit if other pods ended."; x.
		Message != want || x.Verdict != v1alpha1.VerdictFitsWhenFreed {
		t.Errorf("got %s: %s, want: %s", x.Verdict, x.Message, want)
	}
	// Nothing of this changes the claims of the process.
	if allocated, err := c.Devices.ResourceClaims().ListAllAllocatedDevices(); err != nil || allocated.Len() != 1 {
		t.Errorf("%v are allocated (%v)", allocated, err)
	}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

// deviceClass makes a class of all devices of the driver.
func deviceClass(name string, changes ...func(*resourcev1.DeviceClass)) *resourcev1.DeviceClass {
	c := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.DeviceClassSpec{
		Selectors: []resourcev1.DeviceSelector{
			{CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "` + driver + `"`}}},
	}}
	for _, change := range changes {
		change(c)
	}
	return c
}

// forResource gives devices of the class to pods that request an extended resource.
func forResource(name string) func(*resourcev1.DeviceClass) {
	return func(c *resourcev1.DeviceClass) { c.Spec.ExtendedResourceName = &name }
}

// devices are some devices of a node.
func devices(nodeName string, names ...string) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: nodeName}, Spec: resourcev1.ResourceSliceSpec{
		Driver: driver, NodeName: &nodeName,
		Pool: resourcev1.ResourcePool{Name: nodeName, Generation: 1, ResourceSliceCount: 1},
	}}
	for _, name := range names {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: name})
	}
	return s
}

// usingDevice makes a pod use the claim with that name.
func usingDevice(claim string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: &claim}}
		pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "device"}}
	}
}

// ownDevice makes a pod use a claim that a controller creates from a template.
func ownDevice(pod *corev1.Pod) {
	usingDevice("")(pod)
	pod.Spec.ResourceClaims[0] = corev1.PodResourceClaim{Name: "device", ResourceClaimTemplateName: ptr.To("template")}
}

// giveBack releases the device of a claim.
func giveBack(name string) func(context.Context) {
	return func(ctx context.Context) {
		GinkgoHelper()
		c := DeviceClaim(name, "class")
		Expect(K8s.Get(ctx, client.ObjectKeyFromObject(c), c)).To(Succeed())
		c.Status.Allocation = nil
		Expect(K8s.Status().Update(ctx, c)).To(Succeed())
	}
}

// inUse allocates a device of a node to a claim, as for another pod.
func inUse(ctx context.Context, name, nodeName, device string) {
	GinkgoHelper()
	c := DeviceClaim(name, "class")
	Expect(K8s.Get(ctx, client.ObjectKeyFromObject(c), c)).To(Succeed())
	c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{{Request: "device", Driver: driver, Pool: nodeName,
			Device: device}},
	}}
	Expect(K8s.Status().Update(ctx, c)).To(Succeed())
}

var _ = Describe("A change of devices", Ordered, ContinueOnFailure, func() {
	var w wakers
	BeforeAll(func() { w.start() })
	BeforeEach(w.expectCleared)

	DescribeTable("wakes the pods that it may help, and no others:", w.check,
		Entry("a claim is created", wake{
			plugin: "DynamicResources", gated: true,
			given:   []client.Object{NodeOf("n1"), deviceClass("class"), devices("n1", "d1")},
			woken:   []*corev1.Pod{p("pod", usingDevice("claim"))},
			asleep:  []*corev1.Pod{p("other", usingDevice("other"))},
			happens: come(DeviceClaim("claim", "class")), event: of(fwk.ResourceClaim, fwk.Add),
		}),
		Entry("the status of a pod names the claim that a controller created for it", wake{
			plugin: "DynamicResources", gated: true,
			given: []client.Object{NodeOf("n1"), deviceClass("class"), devices("n1", "d1")},
			woken: []*corev1.Pod{p("pod", ownDevice)}, asleep: []*corev1.Pod{p("other", ownDevice)},
			happens: func(ctx context.Context) {
				pod := p("pod")
				Expect(K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
				// The claim and its name may arrive in either order: each has its own event. It has
				// an owner from the start, as the controller creates it: upstream's plugin does not
				// wait for an owner.
				claim := DeviceClaim("claim", "class")
				claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name,
					UID: pod.UID, Controller: ptr.To(true)}}
				given(ctx, claim)
				// The write of the pod's condition may come in between.
				Expect(retry.RetryOnConflict(testcluster.Patience, func() error {
					if err := K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
						return err
					}
					pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{
						{Name: "device", ResourceClaimName: ptr.To("claim")}}
					return K8s.Status().Update(ctx, pod)
				})).To(Succeed())
			},
			event: podItself,
		}),
		Entry("a device is added", wake{
			plugin:  "DynamicResources",
			given:   []client.Object{NodeOf("n1"), deviceClass("class"), DeviceClaim("claim", "class")},
			woken:   []*corev1.Pod{p("pod", usingDevice("claim"))},
			happens: come(devices("n1", "d1")), event: of(fwk.ResourceSlice, fwk.Add),
		}),
		Entry("a node has more devices", wake{
			plugin: "DynamicResources",
			given:  []client.Object{NodeOf("n1"), deviceClass("class"), devices("n1"), DeviceClaim("claim", "class")},
			woken:  []*corev1.Pod{p("pod", usingDevice("claim"))},
			happens: have(devices("n1"), func(s *resourcev1.ResourceSlice) {
				s.Spec.Devices, s.Spec.Pool.Generation = devices("n1", "d1").Spec.Devices, 2
			}),
			event: of(fwk.ResourceSlice, fwk.Update),
		}),
		Entry("a class is created", wake{
			plugin:  "DynamicResources",
			given:   []client.Object{NodeOf("n1"), devices("n1", "d1"), DeviceClaim("claim", "class")},
			woken:   []*corev1.Pod{p("pod", usingDevice("claim"))},
			happens: come(deviceClass("class")), event: of(fwk.DeviceClass, fwk.Add),
		}),
		Entry("a class selects other devices", wake{
			plugin: "DynamicResources",
			given: []client.Object{NodeOf("n1"), devices("n1", "d1"), DeviceClaim("claim", "class"),
				deviceClass("class", func(c *resourcev1.DeviceClass) {
					c.Spec.Selectors[0].CEL.Expression = "false"
				})},
			woken:   []*corev1.Pod{p("pod", usingDevice("claim"))},
			happens: have(deviceClass("class"), func(c *resourcev1.DeviceClass) { c.Spec = deviceClass("class").Spec }),
			event:   of(fwk.DeviceClass, fwk.Update),
		}),
		Entry("a node is added, and devices are on nodes", wake{
			plugin: "DynamicResources",
			given: []client.Object{NodeOf("n1"), deviceClass("class"), devices("n2", "d1"),
				DeviceClaim("claim", "class")},
			woken:   []*corev1.Pod{p("pod", usingDevice("claim"))},
			happens: come(NodeOf("n2")), event: of(fwk.Node, fwk.Add),
		}),
		Entry("a class for an extended resource is created", wake{
			server: "1.36", plugin: "NodeResourcesFit", given: []client.Object{NodeOf("n1"), devices("n1", "d1")},
			woken:   []*corev1.Pod{p("pod", asking("example.com/gpu", "1"))},
			asleep:  []*corev1.Pod{p("other", asking("example.com/fpga", "1"))},
			happens: come(deviceClass("class", forResource("example.com/gpu"))), event: of(fwk.DeviceClass, fwk.Add),
		}),
		Entry("a class gets an extended resource", wake{
			server: "1.36", plugin: "NodeResourcesFit",
			given:   []client.Object{NodeOf("n1"), devices("n1", "d1"), deviceClass("class")},
			woken:   []*corev1.Pod{p("pod", asking("example.com/gpu", "1"))},
			asleep:  []*corev1.Pod{p("other", asking("example.com/fpga", "1"))},
			happens: have(deviceClass("class"), forResource("example.com/gpu")), event: of(fwk.DeviceClass, fwk.Update),
		}),
	)

	It("wakes the pod that lacks a device when another claim releases it", func(ctx context.Context) {
		given(ctx, deviceClass("class"))
		given(ctx, devices("n1", "d1"))
		given(ctx, DeviceClaim("taken", "class"))
		inUse(ctx, "taken", "n1", "d1")
		w.check(ctx, wake{
			plugin: "DynamicResources", given: []client.Object{NodeOf("n1"), DeviceClaim("claim", "class")},
			woken:   []*corev1.Pod{p("pod", usingDevice("claim"))},
			happens: giveBack("taken"), event: of(fwk.ResourceClaim, fwk.Update),
		})
	})

	// Informers may miss that a claim gives back its device before it is deleted.
	It("wakes the pod that lacks a device when the claim that has it is deleted", func(ctx context.Context) {
		given(ctx, deviceClass("class"))
		given(ctx, devices("n1", "d1"))
		taken := DeviceClaim("taken", "class")
		given(ctx, taken)
		inUse(ctx, "taken", "n1", "d1")
		w.check(ctx, wake{
			plugin: "DynamicResources", given: []client.Object{NodeOf("n1"), DeviceClaim("claim", "class")},
			woken:   []*corev1.Pod{p("pod", usingDevice("claim"))},
			happens: func(ctx context.Context) { Expect(K8s.Delete(ctx, taken)).To(Succeed()) },
			event:   of(fwk.ResourceClaim, fwk.Delete),
		})
	})
})

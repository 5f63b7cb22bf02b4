// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livesched/livesched/test/e2e/framework"
)

// gpuDriver is the name of the device driver. No driver runs: the specs create its ResourceSlices.
const gpuDriver = "gpu.example.com"

// deviceOf returns a device.
func deviceOf(name string, changes ...func(*resourcev1.Device)) resourcev1.Device {
	d := resourcev1.Device{Name: name}
	for _, change := range changes {
		change(&d)
	}
	return d
}

// devicesOf returns devices without attributes.
func devicesOf(names ...string) []resourcev1.Device {
	var all []resourcev1.Device
	for _, name := range names {
		all = append(all, deviceOf(name))
	}
	return all
}

func attribute(name, value string) func(*resourcev1.Device) {
	return func(d *resourcev1.Device) {
		if d.Attributes == nil {
			d.Attributes = map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{}
		}
		d.Attributes[resourcev1.QualifiedName(name)] = resourcev1.DeviceAttribute{StringValue: ptr.To(value)}
	}
}

func memory(quantity string) func(*resourcev1.Device) {
	return func(d *resourcev1.Device) {
		d.Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{
			"memory": {Value: resource.MustParse(quantity)}}
	}
}

// sliceOf returns the driver's ResourceSlice for the devices of a node, which form a pool.
func sliceOf(node string, devices ...resourcev1.Device) *resourcev1.ResourceSlice {
	return &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: className(node)},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: gpuDriver, Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1}, NodeName: ptr.To(node),
			Devices: devices,
		},
	}
}

// deviceClass returns a class of all devices of the driver, or of those that match a CEL
// expression.
func deviceClass(name string, expressions ...string) *resourcev1.DeviceClass {
	return &resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: className(name)},
		Spec: resourcev1.DeviceClassSpec{
			Selectors: selectors(append(expressions, fmt.Sprintf("device.driver == %q", gpuDriver))...)},
	}
}

func selectors(expressions ...string) []resourcev1.DeviceSelector {
	var all []resourcev1.DeviceSelector
	for _, e := range expressions {
		all = append(all, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: e}})
	}
	return all
}

type requestChange = func(*resourcev1.ExactDeviceRequest)

// one returns a request for a device of a class.
func one(class string, changes ...requestChange) resourcev1.DeviceRequest {
	exactly := &resourcev1.ExactDeviceRequest{DeviceClassName: className(class),
		AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}
	for _, change := range changes {
		change(exactly)
	}
	return resourcev1.DeviceRequest{Name: "gpu", Exactly: exactly}
}

func count(n int64) requestChange {
	return func(r *resourcev1.ExactDeviceRequest) { r.Count = n }
}

func all(r *resourcev1.ExactDeviceRequest) {
	r.AllocationMode, r.Count = resourcev1.DeviceAllocationModeAll, 0
}

func where(expressions ...string) requestChange {
	return func(r *resourcev1.ExactDeviceRequest) { r.Selectors = selectors(expressions...) }
}

func claimSpecOf(requests ...resourcev1.DeviceRequest) resourcev1.ResourceClaimSpec {
	return resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: requests}}
}

// resourceClaim returns a claim that pods use by its name.
func resourceClaim(name string, requests ...resourcev1.DeviceRequest) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: claimSpecOf(requests...)}
}

// claimTemplate returns a template from which every pod gets its own claim.
func claimTemplate(name string, requests ...resourcev1.DeviceRequest) *resourcev1.ResourceClaimTemplate {
	return &resourcev1.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       resourcev1.ResourceClaimTemplateSpec{Spec: claimSpecOf(requests...)},
	}
}

// claiming makes pods use a claim.
func claiming(name string) podChange {
	return withClaim(corev1.PodResourceClaim{Name: name, ResourceClaimName: ptr.To(name)})
}

// claimingFrom makes each pod use a claim from a template.
func claimingFrom(template string) podChange {
	return withClaim(corev1.PodResourceClaim{Name: template, ResourceClaimTemplateName: ptr.To(template)})
}

func withClaim(claim corev1.PodResourceClaim) podChange {
	return func(pod *corev1.Pod) {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, claim)
		resources := &pod.Spec.Containers[0].Resources
		resources.Claims = append(resources.Claims, corev1.ResourceClaim{Name: claim.Name})
	}
}

// allocatedTo returns the devices of a claim, as pool/device, in the order of its requests.
func allocatedTo(claim *resourcev1.ResourceClaim) []string {
	if claim.Status.Allocation == nil {
		return nil
	}
	var devices []string
	for _, result := range claim.Status.Allocation.Devices.Results {
		devices = append(devices, result.Pool+"/"+result.Device)
	}
	return devices
}

// claimsOf lists the claims of the spec.
func claimsOf(ctx context.Context) []resourcev1.ResourceClaim {
	GinkgoHelper()
	var list resourcev1.ResourceClaimList
	Expect(K8s.List(ctx, &list, client.InNamespace(namespace))).To(Succeed())
	return list.Items
}

// devicesInUse returns the devices of all claims, and checks that no two claims share a device.
func devicesInUse(ctx context.Context) []string {
	GinkgoHelper()
	var used []string
	for _, claim := range claimsOf(ctx) {
		for _, device := range allocatedTo(&claim) {
			Expect(used).NotTo(ContainElement(device))
			used = append(used, device)
		}
	}
	return used
}

// expectAllocated waits until a claim has devices and is reserved for pods, and returns the
// devices.
func expectAllocated(ctx context.Context, claim *resourcev1.ResourceClaim, pods ...*corev1.Pod) []string {
	GinkgoHelper()
	var reserved []any
	for _, pod := range pods {
		reserved = append(reserved,
			resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID})
	}
	Eventually(func(g Gomega) {
		g.Expect(read(ctx, claim)).To(Succeed())
		g.Expect(claim.Status.Allocation).NotTo(BeNil())
		g.Expect(claim.Status.ReservedFor).To(ConsistOf(reserved...))
	}).WithContext(ctx).Should(Succeed())
	return allocatedTo(claim)
}

// expectFree waits until a claim is neither allocated nor reserved.
func expectFree(ctx context.Context, claim *resourcev1.ResourceClaim) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(read(ctx, claim)).To(Succeed())
		g.Expect(claim.Status).To(Equal(resourcev1.ResourceClaimStatus{}))
	}).WithContext(ctx).Should(Succeed())
}

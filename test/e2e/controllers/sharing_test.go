// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"

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

func tainted(key string, effect resourcev1.DeviceTaintEffect) func(*resourcev1.Device) {
	return func(d *resourcev1.Device) {
		d.Taints = append(d.Taints, resourcev1.DeviceTaint{Key: key, Effect: effect})
	}
}

// In Kubernetes 1.36, these features are beta and on by default.
var _ = Describe("A device", func() {
	BeforeEach(func(ctx context.Context) {
		NeedsServer("1.36", "it drops the fields of these features")
		start(ctx)
		addNodes(ctx, nodesOf("n1", "n2")...)
		CreateFor(ctx, deviceClass("gpu"))
	})

	// users creates pods, each with its own claim for a device.
	users := func(ctx context.Context, names []string, changes ...requestChange) []*corev1.Pod {
		GinkgoHelper()
		var pods []*corev1.Pod
		for _, name := range names {
			Create(ctx, resourceClaim(name, one("gpu", changes...)))
			pods = append(pods, createPod(ctx, name, claiming(name)))
		}
		return pods
	}

	It("that is part of another device is not allocated at the same time as the whole device",
		func(ctx context.Context) {
			consuming := func(memory string) func(*resourcev1.Device) {
				return func(d *resourcev1.Device) {
					d.ConsumesCounters = []resourcev1.DeviceCounterConsumption{
						{CounterSet: "chip",
							Counters: map[string]resourcev1.Counter{"memory": {Value: resource.MustParse(memory)}}}}
				}
			}
			counters, parts := sliceOf("n1"), sliceOf("n1",
				deviceOf("whole", attribute("part", "whole"), consuming("80Gi")),
				deviceOf("half-0", attribute("part", "half"), consuming("40Gi")),
				deviceOf("half-1", attribute("part", "half"), consuming("40Gi")))
			counters.Name += "-counters"
			counters.Spec.SharedCounters = []resourcev1.CounterSet{
				{Name: "chip", Counters: map[string]resourcev1.Counter{"memory": {Value: resource.MustParse("80Gi")}}}}
			counters.Spec.Pool.ResourceSliceCount, parts.Spec.Pool.ResourceSliceCount = 2, 2
			CreateFor(ctx, counters, parts)
			part := func(name string) requestChange {
				return where(`device.attributes["gpu.example.com"].part == "` + name + `"`)
			}
			half := users(ctx, []string{"half"}, part("half"))[0]
			expectPodsRunning(ctx, half)
			whole := users(ctx, []string{"whole"}, part("whole"))[0]
			ExpectUnschedulable(ctx, whole, ofTwo+noDevices+noClaims)
			expectPodsRunning(ctx, users(ctx, []string{"other-half"}, part("half"))...)
			Expect(devicesInUse(ctx)).To(ConsistOf("n1/half-0", "n1/half-1"))
			Expect(K8s.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(namespace),
				client.MatchingLabels{"app": "half"})).To(Succeed())
			ExpectPending(ctx, whole)
			Expect(K8s.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(namespace),
				client.MatchingLabels{"app": "other-half"})).To(Succeed())
			Expect(expectPodsRunning(ctx, whole)).To(Equal("n1"))
		})

	It("that allows multiple allocations is shared up to its capacity", func(ctx context.Context) {
		CreateFor(ctx, sliceOf("n1",
			deviceOf("gpu-0", memory("10Gi"),
				func(d *resourcev1.Device) { d.AllowMultipleAllocations = ptr.To(true) })))
		consuming := func(quantity string) requestChange {
			return func(r *resourcev1.ExactDeviceRequest) {
				r.Capacity = &resourcev1.CapacityRequirements{
					Requests: map[resourcev1.QualifiedName]resource.Quantity{"memory": resource.MustParse(quantity)}}
			}
		}
		six := users(ctx, []string{"six"}, consuming("6Gi"))[0]
		four := users(ctx, []string{"four"}, consuming("4Gi"))[0]
		expectPodsRunning(ctx, six, four)
		Expect(expectAllocated(ctx, resourceClaim("six"), six)).
			To(Equal(expectAllocated(ctx, resourceClaim("four"), four)))
		five := users(ctx, []string{"five"}, consuming("5Gi"))[0]
		ExpectUnschedulable(ctx, five, ofTwo+noDevices+noClaims)
		Expect(K8s.Delete(ctx, four)).To(Succeed())
		expectFree(ctx, resourceClaim("four"))
		ExpectPending(ctx, five)
		Expect(K8s.Delete(ctx, six)).To(Succeed())
		expectPodsRunning(ctx, five)
	})

	It("that is tainted is allocated only to pods that tolerate the taint; other pods are evicted and get another "+
		"device", func(ctx context.Context) {
		slice := sliceOf("n1", deviceOf("bad", tainted("broken", resourcev1.DeviceTaintEffectNoSchedule)))
		CreateFor(ctx, slice)
		tolerant := users(ctx, []string{"tolerant"}, func(r *resourcev1.ExactDeviceRequest) {
			r.Tolerations = []resourcev1.DeviceToleration{
				{Key: "broken", Operator: resourcev1.DeviceTolerationOpExists}}
		})[0]
		expectPodsRunning(ctx, tolerant)
		Expect(K8s.Delete(ctx, tolerant)).To(Succeed())
		expectFree(ctx, resourceClaim("tolerant"))

		Create(ctx, claimTemplate("template", one("gpu")), replicaSetOf("web", 1, claimingFrom("template")))
		Eventually(func() []corev1.Pod { return podsOf(ctx, "web") }).WithContext(ctx).
			Should(ContainElement(BeUnschedulable(Equal(ofTwo + noDevices + noClaims))))
		By("removing the taint")
		republish := func(change func(*resourcev1.ResourceSlice)) {
			GinkgoHelper()
			Update(ctx, slice, func(s *resourcev1.ResourceSlice) {
				s.Spec.Pool.Generation++
				change(s)
			})
		}
		republish(func(s *resourcev1.ResourceSlice) { s.Spec.Devices[0].Taints = nil })
		Expect(expectRunning(ctx, "web", 1)).To(HaveKey("n1"))

		By("adding a taint with the effect NoExecute while another device is free")
		CreateFor(ctx, sliceOf("n2", devicesOf("good")...))
		republish(func(s *resourcev1.ResourceSlice) {
			tainted("broken", resourcev1.DeviceTaintEffectNoExecute)(&s.Spec.Devices[0])
		})
		Eventually(func() map[string]int { return running(ctx, "web") }).WithContext(ctx).
			Should(Equal(map[string]int{"n2": 1}))
	})

	It("with binding conditions delays the binding of the pod until it is ready, and is allocated again when it "+
		"reports a failure", func(ctx context.Context) {
		const ready, failed = "example.com/ready", "example.com/failed"
		attachable := func(d *resourcev1.Device) {
			d.BindsToNode, d.BindingConditions, d.BindingFailureConditions = ptr.To(true), []string{ready},
				[]string{failed}
		}
		CreateFor(ctx, sliceOf("n1", deviceOf("gpu-0", attachable)))
		pod := users(ctx, []string{"pod"})[0]
		claim := resourceClaim("pod")
		report := func(condition string) {
			GinkgoHelper()
			expectAllocated(ctx, claim, pod)
			updateStatus(ctx, claim, func(claim *resourcev1.ResourceClaim) {
				result := claim.Status.Allocation.Devices.Results[0]
				claim.Status.Devices = []resourcev1.AllocatedDeviceStatus{
					{Driver: gpuDriver, Pool: result.Pool, Device: result.Device, Conditions: []metav1.Condition{
						{Type: condition, Status: metav1.ConditionTrue, Reason: "Reported",
							LastTransitionTime: metav1.Now()},
					}}}
			})
		}
		expectAllocated(ctx, claim, pod)
		ExpectPending(ctx, pod)
		Eventually(func(g Gomega) {
			g.Expect(read(ctx, pod)).To(Succeed())
			g.Expect(pod.Status.NominatedNodeName).To(Equal("n1"))
		}).WithContext(ctx).Should(Succeed())

		By("reporting a failure")
		first := claim.Status.Allocation.AllocationTimestamp
		report(failed)
		Eventually(func(g Gomega) {
			g.Expect(read(ctx, claim)).To(Succeed())
			g.Expect(claim.Status.Allocation).NotTo(BeNil())
			g.Expect(claim.Status.Devices).To(BeEmpty())
		}).WithContext(ctx).Should(Succeed(), "the claim gets a new allocation")
		Expect(first).NotTo(BeNil())
		ExpectPending(ctx, pod)

		report(ready)
		Expect(expectPodsRunning(ctx, pod)).To(Equal("n1"))
	})

	It("provides an extended resource, which other nodes provide through device plugins", func(ctx context.Context) {
		const gpus = "example.com/gpu"
		class := deviceClass("counted")
		class.Spec.ExtendedResourceName = ptr.To(gpus)
		CreateFor(ctx, sliceOf("n2", devicesOf("gpu-0")...))
		a := createPod(ctx, "a", requestingExtended(gpus))
		ExpectUnschedulable(ctx, a, ofTwo+"2 Insufficient "+gpus+"."+noHelp)
		CreateFor(ctx, class)
		Expect(expectPodsRunning(ctx, a)).To(Equal("n2"))

		By("creating a claim with the pod as its owner")
		Expect(a.Status.ExtendedResourceClaimStatus).NotTo(BeNil())
		claim := resourceClaim(a.Status.ExtendedResourceClaimStatus.ResourceClaimName)
		Expect(expectAllocated(ctx, claim, a)).To(Equal([]string{"n2/gpu-0"}))
		Expect(metav1.IsControlledBy(claim, a)).To(BeTrue())
		Expect(claim.Annotations).To(HaveKeyWithValue(resourcev1.ExtendedResourceClaimAnnotation, "true"))

		By("using a device of a device plugin, and waiting for a free device")
		n1 := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
		updateStatus(ctx, n1, func(n1 *corev1.Node) {
			n1.Status.Capacity[gpus], n1.Status.Allocatable[gpus] = resource.MustParse("1"), resource.MustParse("1")
		})
		b := createPod(ctx, "b", requestingExtended(gpus))
		Expect(expectPodsRunning(ctx, b)).To(Equal("n1"))
		Expect(b.Status.ExtendedResourceClaimStatus).To(BeNil())
		c := createPod(ctx, "c", requestingExtended(gpus))
		Eventually(func(g Gomega) {
			g.Expect(read(ctx, c)).To(Succeed())
			g.Expect(*c).To(BeUnschedulable(ContainSubstring("1 Insufficient " + gpus)))
		}).WithContext(ctx).Should(Succeed())
		ExpectPending(ctx, c)
		Expect(K8s.Delete(ctx, a)).To(Succeed())
		Expect(expectPodsRunning(ctx, c)).To(Equal("n2"))
		ExpectGone(ctx, claim)
		Expect(devicesInUse(ctx)).To(Equal([]string{"n2/gpu-0"}))

		By("requesting the class by its implicit resource name")
		d := createPod(ctx, "d",
			requestingExtended(corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix+className("gpu"))))
		ExpectPending(ctx, d)
		Expect(K8s.Delete(ctx, c)).To(Succeed())
		Expect(expectPodsRunning(ctx, d)).To(Equal("n2"))
	})
})

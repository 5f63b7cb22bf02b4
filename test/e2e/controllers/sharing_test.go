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
)

func tainted(key string, effect resourcev1.DeviceTaintEffect) func(*resourcev1.Device) {
	return func(d *resourcev1.Device) {
		d.Taints = append(d.Taints, resourcev1.DeviceTaint{Key: key, Effect: effect})
	}
}

// These kinds of devices are beta, and on, in Kubernetes 1.36.
var _ = Describe("A device", func() {
	BeforeEach(func(ctx context.Context) {
		start(ctx)
		nodes(ctx, "n1", "n2")
		createFor(ctx, deviceClass("gpu"))
	})

	// users creates pods with a claim for a device each.
	users := func(ctx context.Context, names []string, changes ...requestChange) []*corev1.Pod {
		GinkgoHelper()
		var pods []*corev1.Pod
		for _, name := range names {
			create(ctx, resourceClaim(name, one("gpu", changes...)))
			pods = append(pods, createPod(ctx, name, claiming(name)))
		}
		return pods
	}

	It("that is a part of another is not given away while the whole is, nor the whole while a part is", func(ctx context.Context) {
		consuming := func(memory string) func(*resourcev1.Device) {
			return func(d *resourcev1.Device) {
				d.ConsumesCounters = []resourcev1.DeviceCounterConsumption{{CounterSet: "chip", Counters: map[string]resourcev1.Counter{"memory": {Value: resource.MustParse(memory)}}}}
			}
		}
		counters, parts := sliceOf("n1"), sliceOf("n1",
			deviceOf("whole", attribute("part", "whole"), consuming("80Gi")),
			deviceOf("half-0", attribute("part", "half"), consuming("40Gi")),
			deviceOf("half-1", attribute("part", "half"), consuming("40Gi")))
		counters.Name += "-counters"
		counters.Spec.SharedCounters = []resourcev1.CounterSet{{Name: "chip", Counters: map[string]resourcev1.Counter{"memory": {Value: resource.MustParse("80Gi")}}}}
		counters.Spec.Pool.ResourceSliceCount, parts.Spec.Pool.ResourceSliceCount = 2, 2
		createFor(ctx, counters, parts)
		part := func(name string) requestChange {
			return where(`device.attributes["gpu.example.com"].part == "` + name + `"`)
		}
		half := users(ctx, []string{"half"}, part("half"))[0]
		expectPodsRunning(ctx, half)
		whole := users(ctx, []string{"whole"}, part("whole"))[0]
		expectUnschedulable(ctx, whole, ofTwo+noDevices+noClaims)
		expectPodsRunning(ctx, users(ctx, []string{"other-half"}, part("half"))...)
		Expect(devicesInUse(ctx)).To(ConsistOf("n1/half-0", "n1/half-1"))
		Expect(k8s.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(namespace), client.MatchingLabels{"app": "half"})).To(Succeed())
		expectPending(ctx, whole)
		Expect(k8s.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(namespace), client.MatchingLabels{"app": "other-half"})).To(Succeed())
		Expect(expectPodsRunning(ctx, whole)).To(Equal("n1"))
	})

	It("that may be allocated several times is shared as far as its capacity goes", func(ctx context.Context) {
		createFor(ctx, sliceOf("n1", deviceOf("gpu-0", memory("10Gi"), func(d *resourcev1.Device) { d.AllowMultipleAllocations = ptr.To(true) })))
		consuming := func(quantity string) requestChange {
			return func(r *resourcev1.ExactDeviceRequest) {
				r.Capacity = &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{"memory": resource.MustParse(quantity)}}
			}
		}
		six := users(ctx, []string{"six"}, consuming("6Gi"))[0]
		four := users(ctx, []string{"four"}, consuming("4Gi"))[0]
		expectPodsRunning(ctx, six, four)
		Expect(expectAllocated(ctx, resourceClaim("six"), six)).To(Equal(expectAllocated(ctx, resourceClaim("four"), four)))
		five := users(ctx, []string{"five"}, consuming("5Gi"))[0]
		expectUnschedulable(ctx, five, ofTwo+noDevices+noClaims)
		Expect(k8s.Delete(ctx, four)).To(Succeed())
		expectFree(ctx, resourceClaim("four"))
		expectPending(ctx, five)
		Expect(k8s.Delete(ctx, six)).To(Succeed())
		expectPodsRunning(ctx, five)
	})

	It("that is tainted is for those who tolerate it, and those who do not are evicted and find another", func(ctx context.Context) {
		slice := sliceOf("n1", deviceOf("bad", tainted("broken", resourcev1.DeviceTaintEffectNoSchedule)))
		createFor(ctx, slice)
		tolerant := users(ctx, []string{"tolerant"}, func(r *resourcev1.ExactDeviceRequest) {
			r.Tolerations = []resourcev1.DeviceToleration{{Key: "broken", Operator: resourcev1.DeviceTolerationOpExists}}
		})[0]
		expectPodsRunning(ctx, tolerant)
		Expect(k8s.Delete(ctx, tolerant)).To(Succeed())
		expectFree(ctx, resourceClaim("tolerant"))

		create(ctx, claimTemplate("template", one("gpu")), replicaSetOf("web", 1, claimingFrom("template")))
		Eventually(func() []corev1.Pod { return podsOf(ctx, "web") }).WithContext(ctx).Should(ContainElement(unschedulable(Equal(ofTwo + noDevices + noClaims))))
		By("mending the device")
		republish := func(change func(*resourcev1.ResourceSlice)) {
			GinkgoHelper()
			update(ctx, slice, func(s *resourcev1.ResourceSlice) {
				s.Spec.Pool.Generation++
				change(s)
			})
		}
		republish(func(s *resourcev1.ResourceSlice) { s.Spec.Devices[0].Taints = nil })
		Expect(expectRunning(ctx, "web", 1)).To(HaveKey("n1"))

		By("breaking it for good, while there is another")
		createFor(ctx, sliceOf("n2", devicesOf("good")...))
		republish(func(s *resourcev1.ResourceSlice) {
			tainted("broken", resourcev1.DeviceTaintEffectNoExecute)(&s.Spec.Devices[0])
		})
		Eventually(func() map[string]int { return running(ctx, "web") }).WithContext(ctx).Should(Equal(map[string]int{"n2": 1}))
	})

	It("that has to be prepared first is waited for, and given up when that fails", func(ctx context.Context) {
		const ready, failed = "example.com/ready", "example.com/failed"
		attachable := func(d *resourcev1.Device) {
			d.BindsToNode, d.BindingConditions, d.BindingFailureConditions = ptr.To(true), []string{ready}, []string{failed}
		}
		createFor(ctx, sliceOf("n1", deviceOf("gpu-0", attachable)))
		pod := users(ctx, []string{"pod"})[0]
		claim := resourceClaim("pod")
		report := func(condition string) {
			GinkgoHelper()
			expectAllocated(ctx, claim, pod)
			updateStatus(ctx, claim, func(claim *resourcev1.ResourceClaim) {
				result := claim.Status.Allocation.Devices.Results[0]
				claim.Status.Devices = []resourcev1.AllocatedDeviceStatus{{Driver: gpuDriver, Pool: result.Pool, Device: result.Device, Conditions: []metav1.Condition{
					{Type: condition, Status: metav1.ConditionTrue, Reason: "Reported", LastTransitionTime: metav1.Now()},
				}}}
			})
		}
		expectAllocated(ctx, claim, pod)
		expectPending(ctx, pod)
		Expect(pod.Status.NominatedNodeName).To(Equal("n1"))

		By("failing once")
		first := claim.Status.Allocation.AllocationTimestamp
		report(failed)
		Eventually(func(g Gomega) {
			g.Expect(read(ctx, claim)).To(Succeed())
			g.Expect(claim.Status.Allocation).NotTo(BeNil())
			g.Expect(claim.Status.Devices).To(BeEmpty())
		}).WithContext(ctx).Should(Succeed(), "it is allocated anew")
		Expect(first).NotTo(BeNil())
		expectPending(ctx, pod)

		report(ready)
		Expect(expectPodsRunning(ctx, pod)).To(Equal("n1"))
	})

	It("stands behind an extended resource, beside nodes whose kubelets count theirs themselves", func(ctx context.Context) {
		const gpus = "example.com/gpu"
		class := deviceClass("counted")
		class.Spec.ExtendedResourceName = ptr.To(gpus)
		createFor(ctx, sliceOf("n2", devicesOf("gpu-0")...))
		a := createPod(ctx, "a", requesting(gpus, "1"))
		expectUnschedulable(ctx, a, ofTwo+"2 Insufficient "+gpus+"."+noHelp)
		createFor(ctx, class)
		Expect(expectPodsRunning(ctx, a)).To(Equal("n2"))

		By("having made a claim that belongs to the pod")
		Expect(a.Status.ExtendedResourceClaimStatus).NotTo(BeNil())
		claim := resourceClaim(a.Status.ExtendedResourceClaimStatus.ResourceClaimName)
		Expect(expectAllocated(ctx, claim, a)).To(Equal([]string{"n2/gpu-0"}))
		Expect(metav1.IsControlledBy(claim, a)).To(BeTrue())
		Expect(claim.Annotations).To(HaveKeyWithValue(resourcev1.ExtendedResourceClaimAnnotation, "true"))

		By("taking a counted one, and waiting for the next that is free")
		n1 := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
		updateStatus(ctx, n1, func(n1 *corev1.Node) {
			n1.Status.Capacity[gpus], n1.Status.Allocatable[gpus] = resource.MustParse("1"), resource.MustParse("1")
		})
		b := createPod(ctx, "b", requesting(gpus, "1"))
		Expect(expectPodsRunning(ctx, b)).To(Equal("n1"))
		Expect(b.Status.ExtendedResourceClaimStatus).To(BeNil())
		c := createPod(ctx, "c", requesting(gpus, "1"))
		Eventually(func(g Gomega) {
			g.Expect(read(ctx, c)).To(Succeed())
			g.Expect(*c).To(unschedulable(ContainSubstring("1 Insufficient " + gpus)))
		}).WithContext(ctx).Should(Succeed())
		expectPending(ctx, c)
		Expect(k8s.Delete(ctx, a)).To(Succeed())
		Expect(expectPodsRunning(ctx, c)).To(Equal("n2"))
		expectGone(ctx, claim)
		Expect(devicesInUse(ctx)).To(Equal([]string{"n2/gpu-0"}))

		By("asking for the class by its own resource name")
		d := createPod(ctx, "d", requesting(corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix+className("gpu")), "1"))
		expectPending(ctx, d)
		Expect(k8s.Delete(ctx, c)).To(Succeed())
		Expect(expectPodsRunning(ctx, d)).To(Equal("n2"))
	})
})

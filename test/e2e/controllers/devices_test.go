// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

const (
	noDevices = "2 cannot allocate all claims."
	noClaims  = " preemption: 0/2 nodes are available: 2 Preemption is not helpful for " +
		"scheduling."
)

var _ = Describe("A pod that claims devices", func() {
	BeforeEach(func(ctx context.Context) {
		start(ctx)
		addNodes(ctx, nodesOf("n1", "n2")...)
		CreateFor(ctx, deviceClass("gpu"))
	})

	It("runs on a node that has one, and the status of the claim names the device and the pod",
		func(ctx context.Context) {
			CreateFor(ctx, sliceOf("n2", devicesOf("gpu-0")...))
			claim := resourceClaim("claim", one("gpu"))
			Create(ctx, claim)
			pod := createPod(ctx, "pod", claiming("claim"))
			Expect(expectPodsRunning(ctx, pod)).To(Equal("n2"))
			Expect(expectAllocated(ctx, claim, pod)).To(Equal([]string{"n2/gpu-0"}))
			Expect(claim.Status.Allocation.NodeSelector.NodeSelectorTerms).To(ConsistOf(corev1.NodeSelectorTerm{
				MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn,
					Values: []string{"n2"}}},
			}))
			Expect(K8s.Delete(ctx, pod)).To(Succeed())
			expectFree(ctx, claim)
		})

	It("shares them with other pods that use the same claim", func(ctx context.Context) {
		CreateFor(ctx, sliceOf("n1", devicesOf("gpu-0")...), sliceOf("n2", devicesOf("gpu-0")...))
		claim := resourceClaim("claim", one("gpu"))
		Create(ctx, claim)
		a, b, c := createPod(ctx, "a", claiming("claim")), createPod(ctx, "b", claiming("claim")),
			createPod(ctx, "c", claiming("claim"))
		node := expectPodsRunning(ctx, a, b, c)
		Expect(b.Spec.NodeName).To(Equal(node))
		Expect(c.Spec.NodeName).To(Equal(node))
		Expect(expectAllocated(ctx, claim, a, b, c)).To(Equal([]string{node + "/gpu-0"}))

		By("adding many pods at once: no one's reservation conflicts with another's")
		all := []*corev1.Pod{a, b, c}
		for i := range 20 {
			all = append(all, createPod(ctx, fmt.Sprint("many-", i), claiming("claim")))
		}
		Expect(expectPodsRunning(ctx, all...)).To(Equal(node))
		expectAllocated(ctx, claim, all...)
		Expect(eventsOf(ctx, "FailedScheduling")).
			NotTo(ContainElement(HaveField("Note", ContainSubstring("reservation"))))
		for _, pod := range all[3:] {
			Expect(K8s.Delete(ctx, pod)).To(Succeed())
		}
		expectAllocated(ctx, claim, a, b, c)

		By("deleting the pods one by one: the claim is deallocated with the last")
		Expect(K8s.Delete(ctx, a)).To(Succeed())
		expectAllocated(ctx, claim, b, c)
		Expect(K8s.Delete(ctx, b)).To(Succeed())
		Expect(K8s.Delete(ctx, c)).To(Succeed())
		expectFree(ctx, claim)
	})

	It("gets its own claim from a template, and waits until another pod releases a device", func(ctx context.Context) {
		CreateFor(ctx, sliceOf("n1", devicesOf("gpu-0")...), sliceOf("n2", devicesOf("gpu-0")...))
		Create(ctx, claimTemplate("template", one("gpu")))
		a, b := createPod(ctx, "a", claimingFrom("template")), createPod(ctx, "b", claimingFrom("template"))
		expectPodsRunning(ctx, a, b)
		Expect(a.Spec.NodeName).NotTo(Equal(b.Spec.NodeName))
		Expect(devicesInUse(ctx)).To(ConsistOf("n1/gpu-0", "n2/gpu-0"))

		c := createPod(ctx, "c", claimingFrom("template"))
		ExpectUnschedulable(ctx, c, ofTwo+noDevices+noClaims)
		Expect(K8s.Delete(ctx, a)).To(Succeed())
		Expect(expectPodsRunning(ctx, c)).To(Equal(a.Spec.NodeName))
		Expect(devicesInUse(ctx)).To(ConsistOf("n1/gpu-0", "n2/gpu-0"))
	})

	It("of a Job releases them when it has completed", func(ctx context.Context) {
		CreateFor(ctx, sliceOf("n1", devicesOf("gpu-0", "gpu-1")...))
		Create(ctx, claimTemplate("template", one("gpu")))
		job := jobOf("training", 6, 6, claimingFrom("template"))
		Create(ctx, job)
		Eventually(func(g Gomega) {
			devicesInUse(ctx)
			g.Expect(read(ctx, job)).To(Succeed())
			g.Expect(job.Status.Conditions).
				To(ContainElement(And(HaveField("Type", batchv1.JobComplete),
					HaveField("Status", corev1.ConditionTrue))))
		}).WithContext(ctx).Should(Succeed())
		Eventually(func() []resourcev1.ResourceClaim { return claimsOf(ctx) }).WithContext(ctx).Should(BeEmpty())
	})

	It("waits for its claim, its class and a device", func(ctx context.Context) {
		pod := createPod(ctx, "pod", claiming("claim"))
		ExpectPending(ctx, pod)
		Create(ctx, resourceClaim("claim", one("late")))
		ExpectUnschedulable(ctx, pod, ofTwo+"request gpu: device class "+className("late")+" does not exist."+noHelp)
		CreateFor(ctx, deviceClass("late"))
		ExpectUnschedulable(ctx, pod, ofTwo+noDevices+noClaims)
		CreateFor(ctx, sliceOf("n2", devicesOf("gpu-0")...))
		Expect(expectPodsRunning(ctx, pod)).To(Equal("n2"))
	})

	It("gets devices with the attributes and the capacity that it requests", func(ctx context.Context) {
		CreateFor(ctx,
			sliceOf("n1", deviceOf("small", attribute("model", "a"), memory("10Gi")),
				deviceOf("other", attribute("model", "b"), memory("80Gi"))),
			sliceOf("n2", deviceOf("large", attribute("model", "a"), memory("80Gi"))),
			deviceClass("model-a", `device.attributes["gpu.example.com"].model == "a"`))
		claim := resourceClaim("claim",
			one("model-a", where(`device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0`)))
		Create(ctx, claim)
		pod := createPod(ctx, "pod", claiming("claim"))
		Expect(expectPodsRunning(ctx, pod)).To(Equal("n2"))
		Expect(expectAllocated(ctx, claim, pod)).To(Equal([]string{"n2/large"}))
	})

	It("gets the number that it requests with the same value of an attribute, or all devices of a node",
		func(ctx context.Context) {
			CreateFor(ctx,
				sliceOf("n1", deviceOf("gpu-0", attribute("numa", "0")), deviceOf("gpu-1", attribute("numa", "1"))),
				sliceOf("n2", deviceOf("gpu-0", attribute("numa", "0")), deviceOf("gpu-1", attribute("numa", "1")),
					deviceOf("gpu-2", attribute("numa", "1"))))
			pair := resourceClaim("pair", one("gpu", count(2)))
			pair.Spec.Devices.Constraints = []resourcev1.DeviceConstraint{
				{MatchAttribute: ptr.To(resourcev1.FullyQualifiedName(gpuDriver + "/numa"))}}
			Create(ctx, pair, resourceClaim("all", one("gpu", all)))
			two := createPod(ctx, "two", claiming("pair"))
			Expect(expectPodsRunning(ctx, two)).To(Equal("n2"))
			Expect(expectAllocated(ctx, pair, two)).To(ConsistOf("n2/gpu-1", "n2/gpu-2"))
			every := createPod(ctx, "every", claiming("all"))
			Expect(expectPodsRunning(ctx, every)).To(Equal("n1"), "no device of that node is in use")
			Expect(expectAllocated(ctx, resourceClaim("all"), every)).To(ConsistOf("n1/gpu-0", "n1/gpu-1"))
		})

	It("gets the first of its alternatives that a node has", func(ctx context.Context) {
		CreateFor(ctx, sliceOf("n1", deviceOf("large", memory("80Gi")), deviceOf("small-0", memory("10Gi")),
			deviceOf("small-1", memory("10Gi"))))
		sub := func(name string, n int64, expression string) resourcev1.DeviceSubRequest {
			return resourcev1.DeviceSubRequest{Name: name, DeviceClassName: className("gpu"),
				AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: n, Selectors: selectors(expression)}
		}
		request := resourcev1.DeviceRequest{Name: "gpu", FirstAvailable: []resourcev1.DeviceSubRequest{
			sub("large", 1, `device.capacity["gpu.example.com"].memory.compareTo(quantity("80Gi")) >= 0`),
			sub("small", 2, `device.capacity["gpu.example.com"].memory.compareTo(quantity("80Gi")) < 0`),
		}}
		first, second := resourceClaim("first", request), resourceClaim("second", request)
		Create(ctx, first)
		a := createPod(ctx, "a", claiming("first"))
		expectPodsRunning(ctx, a)
		Expect(expectAllocated(ctx, first, a)).To(Equal([]string{"n1/large"}))
		Expect(first.Status.Allocation.Devices.Results[0].Request).To(Equal("gpu/large"))
		Create(ctx, second)
		b := createPod(ctx, "b", claiming("second"))
		expectPodsRunning(ctx, b)
		Expect(expectAllocated(ctx, second, b)).To(ConsistOf("n1/small-0", "n1/small-1"))
	})

	It("uses devices that belong to no single node from every node that their slice selects",
		func(ctx context.Context) {
			everywhere, zoned := sliceOf("network", devicesOf("disk-0")...), sliceOf("zone", devicesOf("disk-1")...)
			everywhere.Spec.NodeName, everywhere.Spec.AllNodes = nil, ptr.To(true)
			zoned.Spec.NodeName, zoned.Spec.NodeSelector = nil, nodeAffinity(corev1.LabelHostname, "n2").Required
			CreateFor(ctx, everywhere)
			Create(ctx, resourceClaim("a", one("gpu")), resourceClaim("b", one("gpu")))
			a, b := createPod(ctx, "a", claiming("a"), Selecting(corev1.LabelHostname, "n1")),
				createPod(ctx, "b", claiming("b"))
			expectPodsRunning(ctx, a)
			Expect(expectAllocated(ctx, resourceClaim("a"), a)).To(Equal([]string{"network/disk-0"}))
			ExpectUnschedulable(ctx, b, ofTwo+noDevices+noClaims)
			CreateFor(ctx, zoned)
			Expect(expectPodsRunning(ctx, b)).To(Equal("n2"))
		})

	It("preempts a pod on the node whose device it needs", func(ctx context.Context) {
		CreateClasses(ctx, PriorityClass("important", 1000))
		CreateFor(ctx, sliceOf("n2", devicesOf("gpu-0")...))
		low := []*corev1.Pod{createPod(ctx, "low-1", CPU("4"), OnNode("n1")),
			createPod(ctx, "low-2", CPU("4"), OnNode("n2"))}
		expectPodsRunning(ctx, low...)
		claim := resourceClaim("claim", one("gpu"))
		Create(ctx, claim)
		high := createPod(ctx, "high", CPU("2"), claiming("claim"), Prioritized("important"))
		Expect(expectPodsRunning(ctx, high)).To(Equal("n2"))
		expectAllocated(ctx, claim, high)
		ExpectGone(ctx, low[1])
		Expect(read(ctx, low[0])).To(Succeed())
	})

	It("gets a new allocation of a claim that no pod uses if it cannot run on the node of the allocated device",
		func(ctx context.Context) {
			CreateFor(ctx, sliceOf("n1", devicesOf("gpu-0")...), sliceOf("n2", devicesOf("gpu-0")...))
			claim := resourceClaim("claim", one("gpu"))
			Create(ctx, claim)
			claim.Status.Allocation = &resourcev1.AllocationResult{
				Devices: resourcev1.DeviceAllocationResult{
					Results: []resourcev1.DeviceRequestAllocationResult{{Request: "gpu", Driver: gpuDriver, Pool: "n1",
						Device: "gpu-0"}}},
				NodeSelector: nodeAffinity(corev1.LabelHostname, "n1").Required,
			}
			Expect(K8s.Status().Update(ctx, claim)).To(Succeed())
			cordon(ctx, "n1", true)
			expectClosed(ctx, "n1")
			pod := createPod(ctx, "pod", claiming("claim"))
			Expect(expectPodsRunning(ctx, pod)).To(Equal("n2"))
			Expect(expectAllocated(ctx, claim, pod)).To(Equal([]string{"n2/gpu-0"}))
		})

	It("gets a device that another pod uses if its claim has admin access", func(ctx context.Context) {
		CreateFor(ctx, sliceOf("n1", devicesOf("gpu-0")...))
		Update(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, func(ns *corev1.Namespace) {
			metav1.SetMetaDataLabel(&ns.ObjectMeta, resourcev1.DRAAdminNamespaceLabelKey, "true")
		})
		Create(ctx, resourceClaim("user", one("gpu")),
			resourceClaim("admin", one("gpu", func(r *resourcev1.ExactDeviceRequest) { r.AdminAccess = ptr.To(true) })))
		user := createPod(ctx, "user", claiming("user"))
		expectPodsRunning(ctx, user)
		admin := createPod(ctx, "admin", claiming("admin"))
		Expect(expectPodsRunning(ctx, admin)).To(Equal("n1"))
		Expect(expectAllocated(ctx, resourceClaim("admin"), admin)).To(Equal([]string{"n1/gpu-0"}))
	})
})

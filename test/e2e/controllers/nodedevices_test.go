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
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/utils/ptr"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

// takingCPU makes a device take CPU of its node.
func takingCPU(quantity string) func(*resourcev1.Device) {
	return func(d *resourcev1.Device) {
		d.NodeAllocatableResources = map[corev1.ResourceName]resourcev1.NodeAllocatableResource{
			corev1.ResourceCPU: {Mapping: &resourcev1.NodeAllocatableMapping{
				DeviceMultiplier: ptr.To(resource.MustParse(quantity))}},
		}
	}
}

var _ = Describe("A device that takes CPU of its node", func() {
	BeforeEach(func(ctx context.Context) {
		NeedsServer("1.37", "its devices take nothing from their node")
		node := NodeOf("n1") // with 4 CPUs
		// Its kubelet counts what devices take. The API server accepts no such device without that.
		node.Status.DeclaredFeatures = []string{string(features.DRANodeAllocatableResources)}
		addNodes(ctx, node)
		CreateFor(ctx, deviceClass("gpu"), sliceOf("n1", deviceOf("gpu-0", takingCPU("3"))))
		Create(ctx, resourceClaim("claim", one("gpu")))
	})

	It("leaves the rest to other pods, as long as a pod has the device", func(ctx context.Context) {
		startWith(ctx, features.DRANodeAllocatableResources)
		user := createPod(ctx, "user", claiming("claim"))
		expectPodsRunning(ctx, user)
		Expect(user.Status.NodeAllocatableResourceClaimStatuses).To(ConsistOf(And(
			HaveField("ResourceClaimName", "claim"),
			HaveField("Mapping", ConsistOf(And(HaveField("Name", corev1.ResourceCPU),
				HaveField("Quantity", HaveValue(BeComparableTo(resource.MustParse("3"))))))),
		)))
		expectPodsRunning(ctx, createPod(ctx, "small", CPU("800m")))
		large := createPod(ctx, "large", CPU("1"))
		Eventually(func(g Gomega) {
			g.Expect(read(ctx, large)).To(Succeed())
			g.Expect(*large).To(BeUnschedulable(ContainSubstring("Insufficient cpu")))
		}).WithContext(ctx).Should(Succeed())

		Expect(K8s.Delete(ctx, user)).To(Succeed())
		expectPodsRunning(ctx, large)
	})

	It("is not given to a pod if the node has too little CPU left", func(ctx context.Context) {
		startWith(ctx, features.DRANodeAllocatableResources)
		other := createPod(ctx, "other", CPU("1"))
		expectPodsRunning(ctx, other)
		user := createPod(ctx, "user", claiming("claim"))
		Eventually(func(g Gomega) {
			g.Expect(read(ctx, user)).To(Succeed())
			g.Expect(*user).To(BeUnschedulable(ContainSubstring("Insufficient cpu")))
		}).WithContext(ctx).Should(Succeed())
		Expect(user.Status.NodeAllocatableResourceClaimStatuses).To(BeEmpty())

		Expect(K8s.Delete(ctx, other)).To(Succeed())
		expectPodsRunning(ctx, user)
	})

	It("takes nothing without the feature gate", func(ctx context.Context) {
		start(ctx)
		user := createPod(ctx, "user", claiming("claim"))
		expectPodsRunning(ctx, user, createPod(ctx, "large", CPU("3800m")))
		Expect(user.Status.NodeAllocatableResourceClaimStatuses).To(BeEmpty())
	})
})

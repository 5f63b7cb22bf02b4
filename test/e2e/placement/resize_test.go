// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

// resizeSpecs are about bound pods whose requests change.
func resizeSpecs() {
	resize := func(ctx context.Context, pod *corev1.Pod, quantity string) {
		GinkgoHelper()
		Expect(K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		CPU(quantity)(pod)
		Expect(K8s.SubResource("resize").Update(ctx, pod)).To(Succeed())
	}
	// runsWith reports in a pod's status the resources of its container.
	runsWith := func(ctx context.Context, pod *corev1.Pod, quantity string) {
		GinkgoHelper()
		Expect(K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		given := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(quantity),
			corev1.ResourceMemory: resource.MustParse("100Mi")}
		pod.Status.Phase = corev1.PodRunning
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "main", AllocatedResources: given, Resources: &corev1.ResourceRequirements{Requests: given},
			Image: "registry.example/pause:1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}}
		Expect(K8s.Status().Update(ctx, pod)).To(Succeed())
	}

	It("is found when a pod is resized to less in place, once the resize is done", func(ctx context.Context) {
		CreateNodes(ctx, "n1")
		resident := PodOf("somebody-else", "resident", CPU("3"), OnNode("n1"))
		Create(ctx, resident)
		runsWith(ctx, resident, "3")
		ExpectSeen(ctx, 1)
		pod := CreatePod(ctx, "mine", "pod", CPU("2"))
		ExpectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable,
			HavePrefix("0/1 nodes are available: 1 Insufficient cpu. "))
		resize(ctx, resident, "1")
		ExpectPending(ctx, pod)
		runsWith(ctx, resident, "1")
		Expect(ExpectBound(ctx, pod)).To(Equal("n1"))
	})

	It("is not found any more when a pod is resized to more in place, before the resize is done",
		func(ctx context.Context) {
			CreateNodes(ctx, "n1")
			resident := PodOf("somebody-else", "resident", CPU("1"), OnNode("n1"))
			Create(ctx, resident)
			runsWith(ctx, resident, "1")
			resize(ctx, resident, "3")
			ExpectSeen(ctx, 1)
			ExpectUnscheduled(ctx, CreatePod(ctx, "mine", "pod", CPU("2")), corev1.PodReasonUnschedulable,
				HavePrefix("0/1 nodes are available: 1 Insufficient cpu. "))
		})
}

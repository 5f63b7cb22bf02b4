// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/features"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

// These specs do not run with kube-scheduler, whose groups with a topology never get devices again.
var _ = Describe("A group whose pods request devices by the name of a class", func() {
	BeforeEach(func(ctx context.Context) {
		NeedsServer("1.37", "it has no groups with a topology")
		addNodes(ctx, nodesOf("n1", "n2")...)
		CreateFor(ctx, deviceClass("gpu"))
	})
	AfterEach(func(ctx context.Context) {
		Expect(K8s.DeleteAllOf(ctx, &schedulingv1beta1.PodGroup{}, client.InNamespace(namespace))).To(Succeed())
	})

	DescribeTable("is placed, and loses a claim that a former binding cycle has left behind",
		func(ctx context.Context, topologyKey string) {
			startWith(ctx, features.GenericWorkload, features.TopologyAwareWorkloadScheduling)
			group := KubernetesPodGroup("group", 2, topologyKey)
			group.Namespace = namespace
			Create(ctx, group)
			gpu := requestingExtended(corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix + className("gpu")))
			a, b := createPod(ctx, "a", InGroup("group"), gpu), createPod(ctx, "b", InGroup("group"), gpu)
			for _, pod := range []*corev1.Pod{a, b} {
				Eventually(func(g Gomega) {
					g.Expect(read(ctx, pod)).To(Succeed())
					g.Expect(*pod).To(BeUnschedulable(Not(BeEmpty())))
				}).WithContext(ctx).Should(Succeed())
			}
			left := resourceClaim("left", one("gpu"))
			left.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
			left.Finalizers = []string{resourcev1.Finalizer}
			left.OwnerReferences = []metav1.OwnerReference{
				*metav1.NewControllerRef(a, corev1.SchemeGroupVersion.WithKind("Pod"))}
			Create(ctx, left)
			CreateFor(ctx, sliceOf("n1", devicesOf("gpu-0", "gpu-1")...))
			Expect(expectPodsRunning(ctx, a, b)).To(Equal("n1"))
			ExpectGone(ctx, left)
		},
		Entry("without a topology", ""),
		Entry("with a topology", corev1.LabelHostname),
	)
})

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

// startWithGroupClaims is start with the feature gate DRAWorkloadResourceClaims, for this spec.
func startWithGroupClaims(ctx context.Context) {
	GinkgoHelper()
	startWith(ctx, features.GenericWorkload, features.DRAWorkloadResourceClaims)
}

// startWith is start with feature gates that are off by default, for this spec.
func startWith(ctx context.Context, gates ...featuregate.Feature) {
	GinkgoHelper()
	gatesTo := func(on bool) (text string) {
		for _, gate := range gates {
			text += fmt.Sprintf("%s=%t,", gate, on)
		}
		return strings.TrimSuffix(text, ",")
	}
	if program := os.Getenv(Oracle); program != "" {
		StartOracle(program, testcluster.KubeScheduler{Profiles: map[string]string{mine: ""},
			FeatureGates: gatesTo(true)})
		return
	}
	set := func(on bool) { Expect(utilfeature.DefaultMutableFeatureGate.Set(gatesTo(on))).To(Succeed()) }
	set(true)
	DeferCleanup(set, false) // after livesched has stopped
	start(ctx)
}

// groupWith returns a PodGroup that has a claim. Under the basic policy, minCount is 0.
func groupWith(minCount int32, claim schedulingv1beta1.PodGroupResourceClaim) *schedulingv1beta1.PodGroup {
	group := KubernetesPodGroup("group", minCount, "")
	group.Namespace = namespace
	group.Spec.ResourceClaims = []schedulingv1beta1.PodGroupResourceClaim{claim}
	return group
}

func fromTemplate(name string) schedulingv1beta1.PodGroupResourceClaim {
	return schedulingv1beta1.PodGroupResourceClaim{Name: name, ResourceClaimTemplateName: ptr.To(name)}
}

func referenceTo(group *schedulingv1beta1.PodGroup) resourcev1.ResourceClaimConsumerReference {
	return resourcev1.ResourceClaimConsumerReference{APIGroup: schedulingv1beta1.GroupName, Resource: "podgroups",
		Name: group.Name, UID: group.UID}
}

// onlyClaim waits until the namespace has one claim that is allocated and reserved for the group.
func onlyClaim(ctx context.Context, group *schedulingv1beta1.PodGroup) (claim resourcev1.ResourceClaim) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		claims := claimsOf(ctx)
		g.Expect(claims).To(HaveLen(1))
		claim = claims[0]
		g.Expect(claim.Status.Allocation).NotTo(BeNil())
		g.Expect(claim.Status.ReservedFor).To(ConsistOf(referenceTo(group)))
	}).WithContext(ctx).Should(Succeed())
	return claim
}

var _ = Describe("A claim that belongs to a PodGroup", func() {
	BeforeEach(func(ctx context.Context) {
		NeedsServer("1.37", "its controllers make no claims for groups")
		addNodes(ctx, nodesOf("n1", "n2")...)
		CreateFor(ctx, deviceClass("gpu"))
		Create(ctx, claimTemplate("template", one("gpu")))
	})
	AfterEach(func(ctx context.Context) { // its claims stay reserved until the group is gone
		Expect(K8s.DeleteAllOf(ctx, &schedulingv1beta1.PodGroup{}, client.InNamespace(namespace))).To(Succeed())
	})

	// members creates pods of the group that use the claim.
	members := func(ctx context.Context, claim podChange, names ...string) (pods []*corev1.Pod) {
		GinkgoHelper()
		for _, name := range names {
			pods = append(pods, createPod(ctx, name, InGroup("group"), claim))
		}
		return pods
	}

	It("is made once, reserved for the group, and shared by a gang on the node of the device",
		func(ctx context.Context) {
			startWithGroupClaims(ctx)
			CreateFor(ctx, sliceOf("n2", devicesOf("gpu-0")...))
			group := groupWith(3, fromTemplate("template"))
			Create(ctx, group)
			pods := members(ctx, claimingFrom("template"), "a", "b", "c")
			Expect(expectPodsRunning(ctx, pods...)).To(Equal("n2"))
			for _, pod := range pods {
				Expect(pod.Spec.NodeName).To(Equal("n2"))
			}
			claim := onlyClaim(ctx, group)
			Expect(metav1.IsControlledBy(&claim, group)).To(BeTrue())
			Expect(allocatedTo(&claim)).To(Equal([]string{"n2/gpu-0"}))

			By("replacing a pod: the claim stays, and the new pod joins the others")
			Expect(K8s.Delete(ctx, pods[0])).To(Succeed())
			ExpectGone(ctx, pods[0])
			Expect(expectPodsRunning(ctx, members(ctx, claimingFrom("template"), "d")...)).To(Equal("n2"))
			onlyClaim(ctx, group)

			By("deleting the pods and the group")
			Expect(K8s.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(namespace))).To(Succeed())
			Expect(K8s.Delete(ctx, group)).To(Succeed())
			Eventually(func(g Gomega) {
				for _, claim := range claimsOf(ctx) {
					g.Expect(claim.Status.ReservedFor).To(BeEmpty())
				}
			}).WithContext(ctx).Should(Succeed())
		})

	It("keeps a gang waiting until a node has the device", func(ctx context.Context) {
		startWithGroupClaims(ctx)
		group := groupWith(2, fromTemplate("template"))
		Create(ctx, group)
		pods := members(ctx, claimingFrom("template"), "a", "b")
		for _, pod := range pods {
			Eventually(func(g Gomega) {
				g.Expect(read(ctx, pod)).To(Succeed())
				g.Expect(*pod).To(BeUnschedulable(Not(BeEmpty())))
			}).WithContext(ctx).Should(Succeed())
			ExpectPending(ctx, pod)
		}
		Expect(claimsOf(ctx)).To(ConsistOf(HaveField("Status", resourcev1.ResourceClaimStatus{})))
		CreateFor(ctx, sliceOf("n1", devicesOf("gpu-0")...))
		Expect(expectPodsRunning(ctx, pods...)).To(Equal("n1"))
		onlyClaim(ctx, group)
	})

	It("is reserved for a group whose pods are scheduled one by one", func(ctx context.Context) {
		startWithGroupClaims(ctx)
		CreateFor(ctx, sliceOf("n1", devicesOf("gpu-0")...))
		group := groupWith(0, fromTemplate("template"))
		Create(ctx, group)
		Expect(expectPodsRunning(ctx, members(ctx, claimingFrom("template"), "a", "b")...)).To(Equal("n1"))
		onlyClaim(ctx, group)
	})

	DescribeTable("is allocated again if no pod of the group has a node, and the node of its device takes none",
		func(ctx context.Context, minCount int32) {
			startWithGroupClaims(ctx)
			CreateFor(ctx, sliceOf("n1", devicesOf("gpu-0")...), sliceOf("n2", devicesOf("gpu-0")...))
			claim := resourceClaim("claim", one("gpu"))
			Create(ctx, claim)
			group := groupWith(minCount, schedulingv1beta1.PodGroupResourceClaim{Name: claim.Name,
				ResourceClaimName: ptr.To(claim.Name)})
			Create(ctx, group)
			cordon(ctx, "n1", true)
			expectClosed(ctx, "n1")
			updateStatus(ctx, claim, func(claim *resourcev1.ResourceClaim) {
				claim.Status.Allocation = &resourcev1.AllocationResult{
					Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
						{Request: "gpu", Driver: gpuDriver, Pool: "n1", Device: "gpu-0"}}},
					NodeSelector: nodeAffinity(corev1.LabelHostname, "n1").Required,
				}
				claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{referenceTo(group)}
			})
			Expect(expectPodsRunning(ctx, members(ctx, claiming("claim"), "a", "b")...)).To(Equal("n2"))
			Expect(read(ctx, claim)).To(Succeed())
			Expect(allocatedTo(claim)).To(Equal([]string{"n2/gpu-0"}))
			Expect(claim.Status.ReservedFor).To(ConsistOf(referenceTo(group)))
		},
		Entry("a gang", int32(2)),
		Entry("pods that are scheduled one by one", int32(0)),
	)

	It("is not used by a scheduler without the feature gate", func(ctx context.Context) {
		start(ctx)
		CreateFor(ctx, sliceOf("n1", devicesOf("gpu-0")...))
		Create(ctx, groupWith(2, fromTemplate("template")))
		pods := members(ctx, claimingFrom("template"), "a", "b")
		for _, pod := range pods {
			Eventually(func(g Gomega) {
				g.Expect(read(ctx, pod)).To(Succeed())
				g.Expect(pod.Status.ResourceClaimStatuses).To(HaveLen(1), "the controller has made the claim")
			}).WithContext(ctx).Should(Succeed())
			ExpectPending(ctx, pod)
		}
		Expect(claimsOf(ctx)).To(ConsistOf(HaveField("Status", resourcev1.ResourceClaimStatus{})))
	})
})

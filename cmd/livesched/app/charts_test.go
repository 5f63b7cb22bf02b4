// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/livesched/app"
	"github.com/livesched/livesched/test/objects"
)

var _ = Describe("What charts need, on the secure port", func() {
	It("has pending kinds, the room of nodes, and the load", func(ctx context.Context) {
		gpu := objects.Node("gpu-0", "8", "16Gi", map[string]string{
			"karpenter.sh/nodepool": "gpu", corev1.LabelTopologyZone: "a"})
		gpu.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("4")
		gpu.Status.Capacity["nvidia.com/gpu"] = resource.MustParse("4")
		gpu.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		cordoned := objects.Node("web-0", "2", "4Gi", nil)
		cordoned.Spec.Unschedulable = true
		cordoned.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "web", Effect: corev1.TaintEffectNoSchedule},
			{Key: "slow", Effect: corev1.TaintEffectPreferNoSchedule}}
		create(ctx, profile("mine"), gpu, cordoned)
		url := runAnswering(func(*app.Options) {})
		bound := objects.Pod("default", "bound", "mine", "1", "1Gi")
		create(ctx, bound)
		expectBound(ctx, bound)
		for i := range 3 {
			train := objects.Pod("default", fmt.Sprint("train-", i), "mine", "64", "1Gi")
			train.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "train",
				UID: "1", Controller: ptr.To(true)}}
			create(ctx, train)
		}
		gated := objects.Pod("default", "gated", "mine", "1", "1Gi")
		gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
		create(ctx, gated)

		By("counting the pods that are alike")
		Eventually(func(g Gomega) {
			kinds := readAs[v1alpha1.PendingKindList](ctx, g, url+"pendingkinds")
			g.Expect(kinds.Pods).To(BeEquivalentTo(4))
			g.Expect(kinds.Kinds).To(BeEquivalentTo(2))
			train := kinds.Items[0]
			g.Expect(train.Message).To(ContainSubstring("0/2 nodes are available"))
			g.Expect(train.Requests.Cpu().String()).To(Equal("64"))
			g.Expect(train.Since.IsZero()).To(BeFalse())
			g.Expect(train.ID).NotTo(BeEmpty())
			of := readAs[v1alpha1.PendingKindList](ctx, g, url+"namespaces/default/pendingkinds?limit=2&id="+train.ID)
			g.Expect(of).To(And(HaveField("Pods", BeEquivalentTo(3)), HaveField("Items", HaveLen(1))))
			g.Expect(of.Items[0].Pending).To(HaveExactElements(
				And(HaveField("Name", "train-0"), HaveField("Place", "Unschedulable"),
					HaveField("Attempts", BeEquivalentTo(1))),
				HaveField("Name", HavePrefix("train-"))))
			train.Message, train.Requests, train.Since, train.ID = "", nil, metav1.Time{}, ""
			g.Expect(train).To(Equal(v1alpha1.PendingKind{Namespace: "default", Pod: "train-0", Owner: "job/train",
				Profile: "mine", SchedulerName: "mine", Pods: 3, Unschedulable: 3, Attempts: 1,
				Result: v1alpha1.DecisionUnschedulable}))
			g.Expect(kinds.Items[1]).To(And(HaveField("Pod", "gated"), HaveField("Gated", BeEquivalentTo(1)),
				HaveField("Owner", ""), HaveField("Result", BeEmpty())))
		}).WithContext(ctx).Should(Succeed())
		one := readAs[v1alpha1.PendingKindList](ctx, Default, url+"namespaces/default/pendingkinds?limit=1")
		Expect(one).To(And(HaveField("Items", HaveLen(1)), HaveField("Kinds", BeEquivalentTo(2))))
		Expect(readAs[v1alpha1.PendingKindList](ctx, Default, url+"namespaces/other/pendingkinds").Pods).To(BeZero())

		By("adding up the requests on each node")
		nodes := readAs[v1alpha1.NodeAllocationList](ctx, Default, url+"nodeallocations?namespace=default&pod=train-0")
		Expect(nodes.Items).To(HaveLen(2))
		room := nodes.Items[0]
		Expect(room).To(And(HaveField("Name", "gpu-0"), HaveField("Pool", "gpu"), HaveField("Zone", "a"),
			HaveField("NotReady", false), HaveField("Taints", BeEmpty()),
			HaveField("Refusal", v1alpha1.ReasonInsufficientResource)))
		text := func(list corev1.ResourceList) map[corev1.ResourceName]string {
			all := map[corev1.ResourceName]string{}
			for name, q := range list {
				all[name] = q.String()
			}
			return all
		}
		Expect(text(room.Allocatable)).To(Equal(map[corev1.ResourceName]string{"cpu": "8", "memory": "16Gi",
			"nvidia.com/gpu": "4", "pods": "110"}))
		Expect(text(room.Requested)).To(Equal(map[corev1.ResourceName]string{"cpu": "1", "memory": "1Gi",
			"pods": "1"}))
		Expect(nodes.Items[1]).To(And(HaveField("Cordoned", true), HaveField("NotReady", true), HaveField("Pool", "-"),
			HaveField("Taints", ContainElement("dedicated=web:NoSchedule")),
			HaveField("Refusal", v1alpha1.ReasonCordoned)))

		By("having the load")
		load := readAs[v1alpha1.LoadSampleList](ctx, Default, url+"loadsamples?last=1h")
		Expect(load).To(And(HaveField("Leading", true), HaveField("Nodes", BeEquivalentTo(2)),
			HaveField("Pods", BeEquivalentTo(1)), HaveField("Replica", Not(BeEmpty()))))
	})
})

// readAs gets an object from a URL, with all rights.
func readAs[T any](ctx context.Context, g Gomega, url string) (object T) {
	GinkgoHelper()
	got := getAs(ctx, cluster.Config.BearerToken, url)
	g.Expect(got.Code).To(Equal(http.StatusOK), got.Body)
	g.Expect(json.Unmarshal([]byte(got.Body), &object)).To(Succeed())
	return object
}

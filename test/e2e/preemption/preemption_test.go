// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

var _ = Describe("Preemption", func() {
	BeforeEach(func(ctx context.Context) {
		StartDefault(ctx)
		never := PriorityClass("polite", 1000)
		never.PreemptionPolicy = ptr.To(corev1.PreemptNever)
		CreateClasses(ctx, PriorityClass("important", 1000), never)
	})

	It("deletes as few pods of lower priority as necessary, reports the reason on them, and binds the preemptor there",
		func(ctx context.Context) {
			CreateNodes(ctx, "n1", "n2")
			var low []*corev1.Pod
			for i, node := range []string{"n1", "n1", "n2"} {
				low = append(low, CreatePod(ctx, "somebody-else", Names("low", 3)[i], CPU("1900m"), OnNode(node)))
			}
			Update(ctx, low[2], Witnessed)
			DeferCleanup(func(ctx context.Context) { Release(ctx, low[2]) })
			high := CreatePod(ctx, "mine", "high", CPU("3"), Prioritized("important"))

			By("nominating the node on which one victim is enough")
			Eventually(func(g Gomega) {
				g.Expect(K8s.Get(ctx, client.ObjectKeyFromObject(high), high)).To(Succeed())
				g.Expect(high.Status.NominatedNodeName).To(Equal("n2"))
				g.Expect(K8s.Get(ctx, client.ObjectKeyFromObject(low[2]), low[2])).To(Succeed())
				g.Expect(low[2].DeletionTimestamp).NotTo(BeNil())
			}).WithContext(ctx).Should(Succeed())
			Expect(low[2].Status.Conditions).To(ContainElement(And(
				HaveField("Type", corev1.DisruptionTarget),
				HaveField("Reason", corev1.PodReasonPreemptionByScheduler),
				HaveField("Message", "mine: preempting to accommodate a higher priority pod"),
			)))
			preempted := ExpectEvent(ctx, low[2], "Preempted",
				HavePrefix("Preempted by pod "+string(high.UID)+" on node n2"))
			Expect(preempted.ReportingController).To(Equal("mine"))
			ExpectPending(ctx, high)

			Release(ctx, low[2])
			Expect(ExpectBound(ctx, high)).To(Equal("n2"))
			for _, pod := range low[:2] {
				Expect(K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
			}
		})

	It("keeps the status of a victim, including fields that livesched does not cache for bound pods",
		func(ctx context.Context) {
			CreateNodes(ctx, "n1")
			low := CreatePod(ctx, "somebody-else", "low", CPU("3"), OnNode("n1"))
			Update(ctx, low, Witnessed)
			DeferCleanup(func(ctx context.Context) { Release(ctx, low) })
			low.Status.Conditions = []corev1.PodCondition{
				{Type: corev1.PodInitialized, Status: corev1.ConditionTrue},
				{Type: corev1.PodReady, Status: corev1.ConditionTrue},
				{Type: corev1.ContainersReady, Status: corev1.ConditionTrue},
			}
			low.Status.PodIP, low.Status.PodIPs = "10.0.0.1", []corev1.PodIP{{IP: "10.0.0.1"}}
			low.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: low.Spec.Containers[0].Name, ContainerID: "containerd://1",
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			}}
			Expect(K8s.Status().Update(ctx, low)).To(Succeed())
			CreatePod(ctx, "mine", "high", CPU("3"), Prioritized("important"))

			before := low.DeepCopy()
			Eventually(func(g Gomega) {
				g.Expect(K8s.Get(ctx, client.ObjectKeyFromObject(low), low)).To(Succeed())
				g.Expect(low.DeletionTimestamp).NotTo(BeNil())
			}).WithContext(ctx).Should(Succeed())
			Expect(low.Status.Conditions).To(ContainElements(before.Status.Conditions))
			Expect(low.Status.Conditions).To(ContainElement(HaveField("Type", corev1.DisruptionTarget)))
			Expect(low.Status.PodIPs).To(Equal(before.Status.PodIPs))
			Expect(low.Status.ContainerStatuses).To(Equal(before.Status.ContainerStatuses))
		})

	It("spares pods of equal priority, pods that a budget protects if possible, and all pods if the preemptor must "+
		"not preempt", func(ctx context.Context) {
		CreateNodes(ctx, "n1", "n2")
		protection := &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "budget"},
			Spec: policyv1.PodDisruptionBudgetSpec{
				MinAvailable: ptr.To(intstr.FromInt32(1)),
				Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app": "protected"}},
			},
		}
		CreateFor(ctx, protection)
		ExpectCached(ctx, protection)
		protected := CreatePod(ctx, "somebody-else", "protected", CPU("3"), OnNode("n1"), Labelled("app", "protected"))
		other := CreatePod(ctx, "somebody-else", "other", CPU("3"), OnNode("n2"))

		polite := CreatePod(ctx, "mine", "polite", CPU("3"), Prioritized("polite"))
		ExpectUnschedulable(ctx, polite, "0/2 nodes are available: 2 Insufficient cpu. "+
			"preemption: not eligible due to preemptionPolicy=Never.")
		equal := CreatePod(ctx, "mine", "equal", CPU("3"))
		ExpectUnschedulable(ctx, equal, "0/2 nodes are available: 2 Insufficient cpu. "+
			"preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.")
		Expect(K8s.Delete(ctx, polite)).To(Succeed())

		high := CreatePod(ctx, "mine", "high", CPU("3"), Prioritized("important"))
		Expect(ExpectBound(ctx, high)).To(Equal("n2"))
		ExpectGone(ctx, other)
		Expect(K8s.Get(ctx, client.ObjectKeyFromObject(protected), protected)).To(Succeed())
	})

	It("ends when the preemptor is deleted, so that others get the room", func(ctx context.Context) {
		CreateNodes(ctx, "n1")
		victim := CreatePod(ctx, "somebody-else", "victim", CPU("3"), OnNode("n1"), Witnessed)
		DeferCleanup(func(ctx context.Context) { Release(ctx, victim) })
		high := CreatePod(ctx, "mine", "high", CPU("3"), Prioritized("important"))
		Eventually(func(g Gomega) {
			g.Expect(K8s.Get(ctx, client.ObjectKeyFromObject(high), high)).To(Succeed())
			g.Expect(high.Status.NominatedNodeName).To(Equal("n1"))
		}).WithContext(ctx).Should(Succeed())
		waiting := CreatePod(ctx, "mine", "waiting", CPU("2"))
		Expect(K8s.Delete(ctx, high)).To(Succeed())
		Release(ctx, victim)
		ExpectBound(ctx, waiting)
	})
})

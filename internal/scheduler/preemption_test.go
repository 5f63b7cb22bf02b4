// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func priorityClass(name string, value int32) *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
}

// createClasses creates priority classes until the end of the spec, and waits until the API server
// takes pods of them.
func createClasses(ctx context.Context, classes ...*schedulingv1.PriorityClass) {
	GinkgoHelper()
	for _, class := range classes {
		createFor(ctx, class)
		Eventually(func() error {
			return k8s.Create(ctx, podOf("nobody", "probe", prioritized(class.Name)), client.DryRunAll)
		}).WithContext(ctx).Should(Succeed())
	}
}

// expectGone waits until a pod is deleted.
func expectGone(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Eventually(func() bool {
		return apierrors.IsNotFound(k8s.Get(ctx, client.ObjectKeyFromObject(pod), pod))
	}).WithContext(ctx).Should(BeTrue())
}

var _ = Describe("Preemption", func() {
	BeforeEach(func(ctx context.Context) {
		startDefault(ctx)
		never := priorityClass("polite", 1000)
		never.PreemptionPolicy = ptr.To(corev1.PreemptNever)
		createClasses(ctx, priorityClass("important", 1000), never)
	})

	It("deletes pods of lower priority, as few as make room, tells them why, and binds the preemptor there", func(ctx context.Context) {
		nodes(ctx, "n1", "n2")
		var low []*corev1.Pod
		for i, node := range []string{"n1", "n1", "n2"} {
			low = append(low, createPod(ctx, "somebody-else", names("low", 3)[i], cpu("1900m"), on(node)))
		}
		update(ctx, low[2], witnessed)
		DeferCleanup(func(ctx context.Context) { release(ctx, low[2]) })
		high := createPod(ctx, "mine", "high", cpu("3"), prioritized("important"))

		By("nominating the node on which one victim is enough")
		Eventually(func(g Gomega) {
			g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(high), high)).To(Succeed())
			g.Expect(high.Status.NominatedNodeName).To(Equal("n2"))
			g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(low[2]), low[2])).To(Succeed())
			g.Expect(low[2].DeletionTimestamp).NotTo(BeNil())
		}).WithContext(ctx).Should(Succeed())
		Expect(low[2].Status.Conditions).To(ContainElement(And(
			HaveField("Type", corev1.DisruptionTarget),
			HaveField("Reason", corev1.PodReasonPreemptionByScheduler),
			HaveField("Message", "mine: preempting to accommodate a higher priority pod"),
		)))
		preempted := expectEvent(ctx, low[2], "Preempted", HavePrefix("Preempted by pod "+string(high.UID)+" on node n2"))
		Expect(preempted.ReportingController).To(Equal("mine"))
		expectPending(ctx, high)

		release(ctx, low[2])
		Expect(expectBound(ctx, high)).To(Equal("n2"))
		for _, pod := range low[:2] {
			Expect(k8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		}
	})

	It("leaves the status of a victim as it was, also what is not kept of bound pods", func(ctx context.Context) {
		nodes(ctx, "n1")
		low := createPod(ctx, "somebody-else", "low", cpu("3"), on("n1"))
		update(ctx, low, witnessed)
		DeferCleanup(func(ctx context.Context) { release(ctx, low) })
		low.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue},
			{Type: corev1.ContainersReady, Status: corev1.ConditionTrue},
		}
		low.Status.PodIP, low.Status.PodIPs = "10.0.0.1", []corev1.PodIP{{IP: "10.0.0.1"}}
		low.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: low.Spec.Containers[0].Name, ContainerID: "containerd://1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}}
		Expect(k8s.Status().Update(ctx, low)).To(Succeed())
		createPod(ctx, "mine", "high", cpu("3"), prioritized("important"))

		before := low.DeepCopy()
		Eventually(func(g Gomega) {
			g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(low), low)).To(Succeed())
			g.Expect(low.DeletionTimestamp).NotTo(BeNil())
		}).WithContext(ctx).Should(Succeed())
		Expect(low.Status.Conditions).To(ContainElements(before.Status.Conditions))
		Expect(low.Status.Conditions).To(ContainElement(HaveField("Type", corev1.DisruptionTarget)))
		Expect(low.Status.PodIPs).To(Equal(before.Status.PodIPs))
		Expect(low.Status.ContainerStatuses).To(Equal(before.Status.ContainerStatuses))
	})

	It("spares pods of equal priority, those that a budget protects if it can, and all if the pod must not preempt", func(ctx context.Context) {
		nodes(ctx, "n1", "n2")
		protection := &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "budget"},
			Spec: policyv1.PodDisruptionBudgetSpec{
				MinAvailable: ptr.To(intstr.FromInt32(1)),
				Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app": "protected"}},
			},
		}
		createFor(ctx, protection)
		expectCached(ctx, protection)
		protected := createPod(ctx, "somebody-else", "protected", cpu("3"), on("n1"), labelled("app", "protected"))
		other := createPod(ctx, "somebody-else", "other", cpu("3"), on("n2"))

		polite := createPod(ctx, "mine", "polite", cpu("3"), prioritized("polite"))
		expectUnschedulable(ctx, polite, "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never.")
		equal := createPod(ctx, "mine", "equal", cpu("3"))
		expectUnschedulable(ctx, equal, "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.")
		Expect(k8s.Delete(ctx, polite)).To(Succeed())

		high := createPod(ctx, "mine", "high", cpu("3"), prioritized("important"))
		Expect(expectBound(ctx, high)).To(Equal("n2"))
		expectGone(ctx, other)
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(protected), protected)).To(Succeed())
	})

	It("is taken back when the preemptor goes, so that others get the room", func(ctx context.Context) {
		nodes(ctx, "n1")
		victim := createPod(ctx, "somebody-else", "victim", cpu("3"), on("n1"), witnessed)
		DeferCleanup(func(ctx context.Context) { release(ctx, victim) })
		high := createPod(ctx, "mine", "high", cpu("3"), prioritized("important"))
		Eventually(func(g Gomega) {
			g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(high), high)).To(Succeed())
			g.Expect(high.Status.NominatedNodeName).To(Equal("n1"))
		}).WithContext(ctx).Should(Succeed())
		waiting := createPod(ctx, "mine", "waiting", cpu("2"))
		Expect(k8s.Delete(ctx, high)).To(Succeed())
		release(ctx, victim)
		expectBound(ctx, waiting)
	})
})

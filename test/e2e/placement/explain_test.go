// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

var _ = Describe("The explanation of a pending pod", func() {
	explain := func(ctx context.Context, pod *corev1.Pod) *v1alpha1.PodExplanation {
		GinkgoHelper()
		Expect(K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		x, err := Running.Scheduler.ExplainPending(ctx, pod, "")
		Expect(err).NotTo(HaveOccurred())
		return x
	}

	start := func(ctx context.Context) {
		GinkgoHelper()
		Start()
		CreateProfile(ctx, "mine", "")
		ExpectProgrammed(ctx, "mine")
	}

	It("says what it waits for, and what would help", func(ctx context.Context) {
		start(ctx)
		CreateNodes(ctx, "n1", "n2")
		first := CreatePod(ctx, "mine", "first", CPU("3"))
		ExpectBound(ctx, first)
		ExpectBound(ctx, CreatePod(ctx, "mine", "second", CPU("3")))
		pending, alike := CreatePod(ctx, "mine", "pending", CPU("2")), CreatePod(ctx, "mine", "alike", CPU("2"))
		for _, pod := range []*corev1.Pod{pending, alike} {
			ExpectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable, HavePrefix("0/2 nodes are available: 2 Insufficient cpu."))
		}

		var x *v1alpha1.PodExplanation
		// The attempt ends after the condition was written, and on a busy machine the time for
		// suggestions may be over before the first was tried.
		Eventually(func(g Gomega) {
			x = explain(ctx, pending)
			g.Expect(x.Pending.Place).To(Equal("Unschedulable"))
			g.Expect(x.Pending.Alike).To(Equal(int32(1)))
			g.Expect(x.Pending.Suggestions).To(ContainElement(HaveField("Description", "Free 1 cpu on one of 2 nodes.")))
		}).WithContext(ctx).Should(Succeed())
		Expect(x.Verdict).To(Equal(v1alpha1.VerdictFitsWhenFreed))
		Expect(x.Profile).To(Equal("mine"))
		Expect(x.Pending.Reason).To(Equal(corev1.PodReasonUnschedulable))
		Expect(x.Pending.Attempts).To(BeNumerically(">=", 1))
		Expect(x.Pending.NextTry.Time).To(BeTemporally(">", x.Time.Time))
		Expect(x.Pending.WaitsFor).To(ContainElement(HaveField("Event", "Pod/Delete")))
		Expect(x.Pending.Groups).To(HaveLen(1))
		Expect(x.Pending.Groups[0].Nodes).To(Equal(int32(2)))
		shortBy := x.Pending.Groups[0].Refusals[0].ShortBy
		Expect(shortBy).To(HaveLen(1))
		Expect(shortBy[0].Quantity.String()).To(Equal("1"))

		By("freeing it")
		Expect(K8s.Delete(ctx, first, client.GracePeriodSeconds(0))).To(Succeed())
		Eventually(func(g Gomega) []string {
			var bound []string
			for _, pod := range []*corev1.Pod{pending, alike} {
				g.Expect(K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
				if pod.Spec.NodeName != "" {
					bound = append(bound, pod.Name)
				}
			}
			return bound
		}).WithContext(ctx).ShouldNot(BeEmpty())
	})

	It("knows gates, and pods that livesched does not schedule", func(ctx context.Context) {
		start(ctx)
		gated := explain(ctx, CreatePod(ctx, "mine", "gated", GatedBy("quota")))
		Expect(gated.Verdict).To(Equal(v1alpha1.VerdictGated))
		Expect(gated.Pending.Gates).To(Equal([]string{"example.com/quota"}))
		theirs := explain(ctx, CreatePod(ctx, "somebody-else", "theirs"))
		Expect(theirs.Verdict).To(Equal(v1alpha1.VerdictNoProfile))
		Expect(theirs.Message).To(HavePrefix(`No SchedulerProfile has the scheduler name "somebody-else".`))
	})
})

var _ = Describe("The explanation of a bound pod", func() {
	It("is the recorded decision, or another one that is made now", func(ctx context.Context) {
		Start()
		CreateProfile(ctx, "mine", "")
		ExpectProgrammed(ctx, "mine")
		CreateNodes(ctx, "n1", "n2")
		pod := CreatePod(ctx, "mine", "recorded", CPU("1"))
		node := ExpectBound(ctx, pod)
		explain := func(pod *corev1.Pod) *v1alpha1.PodExplanation {
			GinkgoHelper()
			Expect(K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
			x, err := Running.Scheduler.ExplainBound(ctx, pod, "")
			Expect(err).NotTo(HaveOccurred())
			Expect(x.Verdict).To(Equal(v1alpha1.VerdictBound))
			Expect(x.Profile).To(Equal("mine"))
			Expect(x.Nodes).To(Equal(int32(2)))
			return x
		}

		x := explain(pod)
		Expect(x.Bound.Basis).To(Equal(v1alpha1.BasisRecorded))
		Expect(x.Bound.Node).To(Equal(node))
		Expect(x.Feasible).To(Equal(int32(2)))
		Expect(x.Bound.Tied).To(Equal(int32(2)))
		Expect(x.Bound.Decided.Time).To(BeTemporally("~", time.Now(), time.Minute))
		Expect(x.Bound.Top).To(HaveLen(2))
		Expect(x.Bound.Top[0].Node).To(Equal(node))
		Expect(x.Bound.Top[0].Scores).To(HaveKey("NodeResourcesFit"))
		var decided decisionlog.Decision
		Eventually(func() decisionlog.Result { // the binding cycle ends after the pod is bound
			decided, _ = Running.Scheduler.Decisions().OfPod(pod.UID)
			return decided.Result
		}).Should(Equal(decisionlog.Bound))

		other := CreatePod(ctx, "mine", "elsewhere", CPU("1"), func(pod *corev1.Pod) { pod.Spec.NodeName = "n1" })
		Eventually(func(g Gomega) { // once the cache has it
			x := explain(other)
			g.Expect(x.Bound.Basis).To(Equal(v1alpha1.BasisRecomputed))
			g.Expect(x.Bound.Decided).To(BeZero())
			g.Expect(x.Feasible).To(Equal(int32(2)))
			g.Expect(x.Bound.Top).To(HaveLen(2))
			g.Expect(x.Bound.Top[0].Node).To(Equal("n1"))
		}).Should(Succeed())
		// No decision has been made since, but the other pod has come.
		Eventually(func() int64 { return explain(pod).Bound.Changes }).Should(BeNumerically(">=", 1))
	})
})

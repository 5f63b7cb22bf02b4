// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

// explained returns the explanation of a pod, once it is as wanted: the informers lag behind.
func explained(ctx context.Context, pod *corev1.Pod, want ...types.GomegaMatcher) (x *v1alpha1.PodExplanation) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var err error
		x, err = Running.Parts().Answers.Explain(ctx, pod.Namespace, pod.Name, "")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(x).To(And(want...))
	}).WithContext(ctx).Should(Succeed())
	return x
}

var _ = Describe("The explanation of a pending pod", func() {
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
			ExpectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable,
				HavePrefix("0/2 nodes are available: 2 Insufficient cpu."))
		}

		// The attempt ends after the condition was written, and on a busy machine the time for
		// suggestions may be over before the first was tried.
		x := explained(ctx, pending, HaveField("Pending.Place", "Unschedulable"),
			HaveField("Pending.Reason", corev1.PodReasonUnschedulable),
			HaveField("Pending.Alike", int32(1)),
			HaveField("Pending.Suggestions", ContainElement(HaveField("Description", "Free 1 cpu on one of 2 nodes."))))
		Expect(x.Verdict).To(Equal(v1alpha1.VerdictFitsWhenFreed))
		Expect(x.Profile).To(Equal("mine"))
		Expect(x.Pending.Attempts).To(BeNumerically(">=", 1))
		Expect(x.Pending.NextTry.Time).To(BeTemporally(">", x.Time.Time))
		Expect(x.Pending.WaitsFor).To(ContainElement(HaveField("Event", "AssignedPod/Delete")))
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
		gated := explained(ctx, CreatePod(ctx, "mine", "gated", GatedBy("quota")))
		Expect(gated.Verdict).To(Equal(v1alpha1.VerdictGated))
		Expect(gated.Pending.Gates).To(Equal([]string{"example.com/quota"}))
		theirs := explained(ctx, CreatePod(ctx, "somebody-else", "theirs"))
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
			x := explained(ctx, pod, HaveField("Verdict", v1alpha1.VerdictBound))
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
			decided, _ = Running.Parts().Answers.Log.OfPod(pod.UID)
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

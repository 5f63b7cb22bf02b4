// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

var _ = Describe("The explanation of a pending pod", func() {
	explain := func(ctx context.Context, pod *corev1.Pod) *v1alpha1.PodExplanation {
		GinkgoHelper()
		Expect(K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		x, err := Running.Scheduler.ExplainPending(ctx, pod)
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
		Expect(theirs.Message).To(Equal(`No SchedulerProfile has the scheduler name "somebody-else".`))
	})
})

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queueing

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

var _ = Describe("A pod that a PreEnqueue plugin holds", func() {
	It("gets an Event and a condition if that lasts, and neither if it does not", func(ctx context.Context) {
		w := wakers{run: Start()}
		CreateNodes(ctx, "held")
		CreateProfile(ctx, "mine", "")
		given(ctx, deviceClass("class"))
		given(ctx, devices("held", "d1", "d2"))
		w.expectCaughtUp(ctx)
		brief := CreatePod(ctx, "mine", "brief", usingDevice("early"))
		given(ctx, DeviceClaim("early", "class"))
		ExpectBound(ctx, brief)
		long := CreatePod(ctx, "mine", "long", usingDevice("late"))
		gated := CreatePod(ctx, "mine", "gated", usingDevice("late"), func(pod *corev1.Pod) {
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/gate"}}
		})

		message := And(HavePrefix("The PreEnqueue plugin DynamicResources holds the pod: "), ContainSubstring("late"))
		ExpectUnscheduled(ctx, long, v1alpha1.PodReasonPreEnqueueRejected, message)
		ExpectEvent(ctx, long, "FailedScheduling", message)
		ExpectUnscheduled(ctx, gated, corev1.PodReasonSchedulingGated, Not(BeEmpty()))
		for _, other := range []*corev1.Pod{brief, gated} {
			Expect(EventsOf(ctx, other, "FailedScheduling")).To(BeEmpty())
		}

		By("creating what it waits for")
		given(ctx, DeviceClaim("late", "class"))
		ExpectBound(ctx, long)
		Eventually(func(g Gomega) {
			g.Expect(K8s.Get(ctx, client.ObjectKeyFromObject(long), long)).To(Succeed())
			g.Expect(long.Status.Conditions).To(ContainElement(And(
				HaveField("Type", corev1.PodScheduled), HaveField("Status", corev1.ConditionTrue),
				HaveField("Reason", ""))))
		}).WithContext(ctx).Should(Succeed())
	})
})

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

var _ = Describe("The pods of a ReplicaSet", func() {
	BeforeEach(func(ctx context.Context) { start(ctx) })

	It("are preempted by pods of a higher priority, are replaced, and run again when there is room",
		func(ctx context.Context) {
			CreateClasses(ctx, PriorityClass("important", 1000))
			addNodes(ctx, nodesOf("n1", "n2")...)
			l := startLedger(ctx)
			Create(ctx, replicaSetOf("low", 8, CPU("1")))
			expectRunning(ctx, "low", 8)

			high := replicaSetOf("high", 3, CPU("2"), Prioritized("important"))
			Create(ctx, high)
			expectRunning(ctx, "high", 3)
			Expect(expectRunning(ctx, "low", 2)).To(HaveLen(1), "six victims are enough")
			Eventually(func() []corev1.Pod { return podsOf(ctx, "low") }).WithContext(ctx).Should(And(HaveLen(8),
				HaveEach(Or(HaveField("Status.Phase", corev1.PodRunning),
					BeUnschedulable(HavePrefix("0/2 nodes are available: 2 Insufficient cpu."))))))
			var preempted []eventsv1.Event
			Eventually(func() map[string][]string {
				preempted = eventsOf(ctx, "Preempted")
				// Two preemptors on the same node can share victims. Then each of them creates an
				// Event for each victim.
				victims := map[string][]string{}
				for _, event := range preempted {
					victims[event.Regarding.Name] = append(victims[event.Regarding.Name], event.Note)
				}
				return victims
			}).WithContext(ctx).Should(HaveLen(6))
			Expect(preempted).To(HaveEach(HaveField("ReportingController", mine)))

			Update(ctx, high, func(rs *appsv1.ReplicaSet) { rs.Spec.Replicas = ptr.To[int32](0) })
			expectRunning(ctx, "low", 8)
			l.expectRight(ctx)
		})

	It("are replaced on another node when their node gets a taint with the effect NoExecute",
		func(ctx context.Context) {
			addNodes(ctx, nodesOf("n1", "n2")...)
			Create(ctx, replicaSetOf("web", 4, preferringApart("web")),
				replicaSetOf("tough", 2, preferringApart("tough"), Tolerating("broken")))
			Expect(expectRunning(ctx, "web", 4)).To(Equal(map[string]int{"n1": 2, "n2": 2}))
			Expect(expectRunning(ctx, "tough", 2)).To(Equal(map[string]int{"n1": 1, "n2": 1}))
			Update(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, func(node *corev1.Node) {
				node.Spec.Taints = []corev1.Taint{{Key: "broken", Effect: corev1.TaintEffectNoExecute}}
			})
			Eventually(func() map[string]int { return running(ctx, "web") }).WithContext(ctx).
				Should(Equal(map[string]int{"n2": 4}))
			Expect(running(ctx, "tough")).To(Equal(map[string]int{"n1": 1, "n2": 1}))
		})
})

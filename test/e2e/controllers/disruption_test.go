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
)

var _ = Describe("The pods of a ReplicaSet", func() {
	BeforeEach(func(ctx context.Context) { start(ctx) })

	It("make room for important ones, are made anew, and come back when there is room again", func(ctx context.Context) {
		createClass(ctx, "important", 1000)
		nodes(ctx, "n1", "n2")
		l := keepLedger(ctx)
		create(ctx, replicaSetOf("low", 8, cpu("1")))
		expectRunning(ctx, "low", 8)

		high := replicaSetOf("high", 3, cpu("2"), prioritized("important"))
		create(ctx, high)
		expectRunning(ctx, "high", 3)
		Expect(expectRunning(ctx, "low", 2)).To(HaveLen(1), "six were enough")
		Eventually(func() []corev1.Pod { return podsOf(ctx, "low") }).WithContext(ctx).Should(And(HaveLen(8),
			HaveEach(Or(HaveField("Status.Phase", corev1.PodRunning), unschedulable(HavePrefix("0/2 nodes are available: 2 Insufficient cpu."))))))
		var preempted []eventsv1.Event
		Eventually(func() map[string][]string {
			preempted = eventsOf(ctx, "Preempted")
			// Two preemptors that take the room on one node share victims, and each of them reports
			// that.
			victims := map[string][]string{}
			for _, event := range preempted {
				victims[event.Regarding.Name] = append(victims[event.Regarding.Name], event.Note)
			}
			return victims
		}).WithContext(ctx).Should(HaveLen(6))
		Expect(preempted).To(HaveEach(HaveField("ReportingController", mine)))

		update(ctx, high, func(rs *appsv1.ReplicaSet) { rs.Spec.Replicas = ptr.To[int32](0) })
		expectRunning(ctx, "low", 8)
		l.expectRight(ctx)
	})

	It("go elsewhere when their node must not execute them any longer", func(ctx context.Context) {
		nodes(ctx, "n1", "n2")
		create(ctx, replicaSetOf("web", 4, apartIfPossible("web")), replicaSetOf("tough", 2, apartIfPossible("tough"), tolerating("broken")))
		Expect(expectRunning(ctx, "web", 4)).To(Equal(map[string]int{"n1": 2, "n2": 2}))
		Expect(expectRunning(ctx, "tough", 2)).To(Equal(map[string]int{"n1": 1, "n2": 1}))
		update(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, withTaint("broken", corev1.TaintEffectNoExecute))
		Eventually(func() map[string]int { return running(ctx, "web") }).WithContext(ctx).Should(Equal(map[string]int{"n2": 4}))
		Expect(running(ctx, "tough")).To(Equal(map[string]int{"n1": 1, "n2": 1}))
	})
})

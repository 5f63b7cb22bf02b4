// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

func daemonSetOf(app string, changes ...podChange) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
			Template: templateOf(app, changes...),
		},
	}
}

var _ = Describe("A DaemonSet", func() {
	BeforeEach(func(ctx context.Context) { start(ctx) })

	It("has a pod on every node whose taints it tolerates, also on cordoned nodes and on nodes that are added later",
		func(ctx context.Context) {
			addNodes(ctx, NodeOf("n1"), NodeOf("n2"), Tainted(NodeOf("tainted"), "only"),
				NodeOf("cordoned"), Tainted(NodeOf("forbidden"), "forbidden"))
			cordon(ctx, "cordoned", true)
			Create(ctx, daemonSetOf("agent", Tolerating("only")))
			want := map[string]int{"n1": 1, "n2": 1, "tainted": 1, "cordoned": 1}
			Expect(expectRunning(ctx, "agent", len(want))).To(Equal(want))

			addNodes(ctx, NodeOf("later"))
			want["later"] = 1
			Expect(expectRunning(ctx, "agent", len(want))).To(Equal(want))

			By("removing a taint that its pods do not tolerate")
			Update(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "forbidden"}},
				func(node *corev1.Node) { node.Spec.Taints = nil })
			want["forbidden"] = 1
			Expect(expectRunning(ctx, "agent", len(want))).To(Equal(want))
		})

	It("has a pod that waits for room on its node, and preempts pods there if its priority is higher",
		func(ctx context.Context) {
			CreateClasses(ctx, PriorityClass("important", 1000))
			addNodes(ctx, nodesOf("n1", "n2", "n3")...)
			filler := createPod(ctx, "filler", CPU("4"), OnNode("n2"))
			expectPodsRunning(ctx, filler)
			Create(ctx, daemonSetOf("agent", CPU("1")))
			Expect(expectRunning(ctx, "agent", 2)).To(Equal(map[string]int{"n1": 1, "n3": 1}))
			Eventually(func(g Gomega) {
				g.Expect(podsOf(ctx, "agent")).To(ContainElement(BeUnschedulable(Equal(
					"0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]. " +
						"preemption: 0/3 nodes are available: 1 No preemption victims " +
						"found for incoming pod, 2 Preemption is not helpful for scheduling."))))
			}).WithContext(ctx).Should(Succeed())

			Create(ctx, daemonSetOf("vital", CPU("1"), Prioritized("important")))
			Expect(expectRunning(ctx, "vital", 3)).To(Equal(map[string]int{"n1": 1, "n2": 1, "n3": 1}))
			ExpectGone(ctx, filler)
			Expect(expectRunning(ctx, "agent", 3)).To(HaveKeyWithValue("n2", 1), "both pods fit on the node now")
		})
})

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// createClass creates a priority class until the end of the spec, and waits until the API server
// accepts pods that use it.
func createClass(ctx context.Context, name string, value int32) {
	GinkgoHelper()
	createFor(ctx, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value})
	Eventually(func() error {
		return k8s.Create(ctx, podOf("probe", prioritized(name)), client.DryRunAll)
	}).WithContext(ctx).Should(Succeed())
}

var _ = Describe("A DaemonSet", func() {
	BeforeEach(func(ctx context.Context) { start(ctx) })

	It("has a pod on every node that it tolerates: cordoned ones, tainted ones, and one that comes later", func(ctx context.Context) {
		createNodes(ctx, nodeOf("n1"), nodeOf("n2"), nodeOf("tainted", withTaint("only", corev1.TaintEffectNoSchedule)),
			nodeOf("cordoned"), nodeOf("forbidden", withTaint("forbidden", corev1.TaintEffectNoSchedule)))
		cordon(ctx, "cordoned", true)
		create(ctx, daemonSetOf("agent", tolerating("only")))
		want := map[string]int{"n1": 1, "n2": 1, "tainted": 1, "cordoned": 1}
		Expect(expectRunning(ctx, "agent", len(want))).To(Equal(want))

		nodes(ctx, "later")
		want["later"] = 1
		Expect(expectRunning(ctx, "agent", len(want))).To(Equal(want))

		By("tolerating what it did not")
		update(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "forbidden"}}, func(node *corev1.Node) { node.Spec.Taints = nil })
		want["forbidden"] = 1
		Expect(expectRunning(ctx, "agent", len(want))).To(Equal(want))
	})

	It("waits for room on the one node that a pod of it may go to, and makes room there if its pods are important", func(ctx context.Context) {
		createClass(ctx, "important", 1000)
		nodes(ctx, "n1", "n2", "n3")
		filler := createPod(ctx, "filler", cpu("4"), onNode("n2"))
		expectPodsRunning(ctx, filler)
		create(ctx, daemonSetOf("agent", cpu("1")))
		Expect(expectRunning(ctx, "agent", 2)).To(Equal(map[string]int{"n1": 1, "n3": 1}))
		Eventually(func(g Gomega) {
			g.Expect(podsOf(ctx, "agent")).To(ContainElement(unschedulable(Equal(
				"0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]. " +
					"no new claims to deallocate, preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling."))))
		}).WithContext(ctx).Should(Succeed())

		create(ctx, daemonSetOf("vital", cpu("1"), prioritized("important")))
		Expect(expectRunning(ctx, "vital", 3)).To(Equal(map[string]int{"n1": 1, "n2": 1, "n3": 1}))
		expectGone(ctx, filler)
		Expect(expectRunning(ctx, "agent", 3)).To(HaveKeyWithValue("n2", 1), "there is room for both now")
	})
})

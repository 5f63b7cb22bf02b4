// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

func replicaSetOf(app string, replicas int32, changes ...podChange) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: ptr.To(replicas),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
			Template: templateOf(app, changes...),
		},
	}
}

func cordon(ctx context.Context, name string, unschedulable bool) {
	GinkgoHelper()
	Update(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}},
		func(node *corev1.Node) { node.Spec.Unschedulable = unschedulable })
}

// expectClosed waits until the scheduler knows that a node is cordoned: pods that select the node
// wait.
func expectClosed(ctx context.Context, name string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		probe := podOf("", Selecting(corev1.LabelHostname, name))
		probe.GenerateName = "probe-"
		g.Expect(K8s.Create(ctx, probe)).To(Succeed())
		defer func() {
			Expect(client.IgnoreNotFound(K8s.Delete(ctx, probe, client.GracePeriodSeconds(0)))).To(Succeed())
		}()
		Eventually(func(g Gomega) {
			g.Expect(read(ctx, probe)).To(Succeed())
			g.Expect(probe.Status.Conditions).To(ContainElement(HaveField("Type", corev1.PodScheduled)))
		}).WithContext(ctx).Should(Succeed())
		g.Expect(*probe).To(BeUnschedulable(ContainSubstring("1 node(s) were unschedulable")))
	}).WithContext(ctx).Should(Succeed())
}

// evictAll evicts the pods of a node as `kubectl drain` does: it tries again while a budget forbids
// an eviction.
func evictAll(ctx context.Context, node string) (refused int) {
	GinkgoHelper()
	for _, pod := range podsOf(ctx) {
		if pod.Spec.NodeName != node {
			continue
		}
		eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
		Eventually(func() error {
			err := clients.PolicyV1().Evictions(pod.Namespace).Evict(ctx, eviction)
			if apierrors.IsTooManyRequests(err) {
				refused++
			}
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		}).WithContext(ctx).Should(Succeed())
	}
	return refused
}

var _ = Describe("A node that is drained", func() {
	It("has its pods replaced on other nodes as fast as their disruption budget allows, and gets no pods until it is "+
		"uncordoned", func(ctx context.Context) {
		start(ctx)
		addNodes(ctx, nodesOf("n1", "n2", "n3")...)
		l := startLedger(ctx)
		// The pods use all twelve CPUs of the cluster, so that the replacement of an evicted pod
		// fits only after the filler is deleted.
		filler := createPod(ctx, "filler", CPU("4"), OnNode("n3"))
		expectPodsRunning(ctx, filler)
		Create(ctx, replicaSetOf("web", 8, CPU("1"), preferringApart("web")))
		expectRunning(ctx, "web", 8)
		Create(ctx, &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
			Spec: policyv1.PodDisruptionBudgetSpec{
				MinAvailable: ptr.To(intstr.FromInt32(7)),
				Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			},
		})
		Eventually(func(g Gomega) {
			budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
			g.Expect(read(ctx, budget)).To(Succeed())
			g.Expect(budget.Status.DisruptionsAllowed).To(BeEquivalentTo(1))
		}).WithContext(ctx).Should(Succeed())
		l.watchReady(ctx, "web")

		cordon(ctx, "n1", true)
		By("evicting a pod whose replacement does not fit: the budget forbids further evictions")
		victim := firstOn(ctx, "n1")
		Expect(clients.PolicyV1().Evictions(namespace).
			Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: victim}})).
			To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(podsOf(ctx, "web")).To(ContainElement(BeUnschedulable(Equal(
				"0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu. " +
					"preemption: 0/3 nodes are available: 1 Preemption is not helpful " +
					"for scheduling, 2 No preemption victims found for incoming pod."))))
		}).WithContext(ctx).Should(Succeed())
		err := clients.PolicyV1().Evictions(namespace).
			Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
				Name: firstOn(ctx, "n1")}})
		Expect(apierrors.IsTooManyRequests(err)).To(BeTrue(), "%v", err)

		By("making room, and evicting the other pods")
		Expect(K8s.Delete(ctx, filler)).To(Succeed())
		ExpectGone(ctx, filler)
		evictAll(ctx, "n1")
		on := expectRunning(ctx, "web", 8)
		Expect(on).To(Equal(map[string]int{"n2": 4, "n3": 4}))
		l.catchUp(ctx)
		Expect(l.fewestReady("web")).To(Equal(7))

		By("uncordoning the node")
		cordon(ctx, "n1", false)
		Update(ctx, replicaSetOf("web", 0), func(rs *appsv1.ReplicaSet) { rs.Spec.Replicas = ptr.To[int32](12) })
		Expect(expectRunning(ctx, "web", 12)).To(HaveKeyWithValue("n1", 4))
		l.expectRight(ctx)
	})
})

// firstOn returns the name of a pod on a node.
func firstOn(ctx context.Context, node string) string {
	GinkgoHelper()
	for _, pod := range podsOf(ctx) {
		if pod.Spec.NodeName == node && pod.DeletionTimestamp == nil {
			return pod.Name
		}
	}
	Fail("there is no pod on " + node)
	return ""
}

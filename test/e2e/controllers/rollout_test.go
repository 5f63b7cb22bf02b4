// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/test/controlplane"
)

func deploymentOf(app string, replicas int32, changes ...podChange) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(replicas),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
			Template: templateOf(app, changes...),
			Strategy: appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{
				MaxSurge: ptr.To(intstr.FromString("10%")), MaxUnavailable: ptr.To(intstr.FromString("10%")),
			}},
		},
	}
}

// expectRolledOut waits until all pods of a Deployment have its present template and run.
func expectRolledOut(ctx context.Context, d *appsv1.Deployment) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(read(ctx, d)).To(Succeed())
		g.Expect(d.Status).To(And(HaveField("ObservedGeneration", d.Generation), HaveField("UpdatedReplicas", *d.Spec.Replicas),
			HaveField("AvailableReplicas", *d.Spec.Replicas), HaveField("Replicas", *d.Spec.Replicas)))
	}).WithContext(ctx).WithTimeout(8 * time.Minute).WithPolling(200 * time.Millisecond).Should(Succeed())
}

var _ = Describe("A Deployment of 500 pods on 100 nodes that they nearly fill", func() {
	const nodes, replicas = 100, 500

	It("is rolled out and updated, each pod bound once, and no node ever has more than it has room for; a node that is lost meanwhile loses its pods to another", func(ctx context.Context) {
		start(ctx)
		Expect(controlplane.CreateNodes(ctx, cluster.Config, nodes)).To(Succeed())
		pool := func(node *corev1.Node) {
			withNodeLabel("pool", "other")(node)
			withTaint("pool", corev1.TaintEffectNoSchedule)(node)
		}
		createNodes(ctx, nodeOf("lost", pool), nodeOf("kept", pool))
		l := keepLedger(ctx)
		create(ctx, replicaSetOf("other", 4, selecting("pool", "other"), tolerating("pool"), apartIfPossible("other")))
		Expect(expectRunning(ctx, "other", 4)).To(Equal(map[string]int{"lost": 2, "kept": 2}))
		// 563 of them fit: 2 on a node with 4 CPUs, 5 on one with 8, 10 on one with 16. The update
		// has up to 550 at a time.
		web := deploymentOf("web", replicas, cpu("1500m"))
		create(ctx, web)
		expectRolledOut(ctx, web)
		old := map[types.UID]bool{}
		for _, pod := range podsOf(ctx, "web") {
			old[pod.UID] = true
		}

		By("losing a node, whose pods kube-controller-manager collects after a minute")
		Expect(k8s.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "lost"}})).To(Succeed())
		By("updating all of them meanwhile")
		update(ctx, web, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "registry.example/pause:2" })
		expectRolledOut(ctx, web)

		var pods []corev1.Pod
		Eventually(func() int {
			pods = podsOf(ctx, "web")
			return len(pods)
		}).WithContext(ctx).Should(Equal(replicas), "the last old pods vanish")
		for _, pod := range pods {
			Expect(old).NotTo(HaveKey(pod.UID))
			Expect(pod.Status.Phase).To(Equal(corev1.PodRunning))
			Expect(pod.Spec.Containers[0].Image).To(HaveSuffix(":2"))
		}
		Eventually(func() map[string]int { return running(ctx, "other") }).WithContext(ctx).WithTimeout(5 * time.Minute).Should(Equal(map[string]int{"kept": 4}))
		l.expectRight(ctx)

		By("looking at what was told about it")
		const bound = 2*replicas + 4 + 2
		scheduled := map[types.UID]int{}
		Eventually(func() int {
			clear(scheduled)
			for _, event := range eventsOf(ctx, "Scheduled") {
				scheduled[event.Regarding.UID]++
			}
			return len(scheduled)
		}).WithContext(ctx).Should(BeNumerically(">=", bound))
		Expect(scheduled).To(HaveEach(1), "an Event per binding")
		// The room of terminating pods may be missing for a moment; every pod that did not fit was
		// scheduled later.
		for _, event := range eventsOf(ctx, "FailedScheduling") {
			Expect(event.Note).To(And(HavePrefix("0/10"), ContainSubstring("100 Insufficient cpu")))
			Expect(scheduled).To(HaveKey(event.Regarding.UID))
		}
	}, SpecTimeout(20*time.Minute))
})

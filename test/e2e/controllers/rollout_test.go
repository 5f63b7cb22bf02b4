// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"os"
	"strconv"
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
	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

// rolloutVariable names the environment variable that sets the number of pods of the Deployment.
// docs/development.md describes it.
const rolloutVariable = "LIVESCHED_TEST_ROLLOUT_PODS"

// rolloutPods returns the number of pods of the Deployment.
func rolloutPods() int {
	text := os.Getenv(rolloutVariable)
	if text == "" {
		return 150
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		panic(fmt.Sprintf("%s=%q is not a number of pods", rolloutVariable, text))
	}
	return n
}

// The Deployment's pods request rolloutCPU thousandths of a CPU each. An update may have
// rolloutSurge percent more pods than replicas, and as many fewer.
const (
	rolloutCPU   = 1500
	rolloutSurge = 10
)

// nodesToUpdate returns the lowest number of nodes on which the Deployment's pods fit during an
// update: 32 nodes with room for 169 pods if an update of 150 pods has at most 165 of them.
func nodesToUpdate(replicas int) int {
	n, room := 0, 0
	for ; room*100 < replicas*(100+rolloutSurge); n++ {
		room += int(controlplane.Node(n).Status.Allocatable.Cpu().MilliValue() / rolloutCPU)
	}
	return n
}

func deploymentOf(app string, replicas int, changes ...podChange) *appsv1.Deployment {
	surge := ptr.To(intstr.FromString(fmt.Sprintf("%d%%", rolloutSurge)))
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(replicas)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
			Template: templateOf(app, changes...),
			Strategy: appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: surge,
				MaxUnavailable: surge}},
		},
	}
}

// expectRolledOut waits until all pods of a Deployment have its current template and run.
func expectRolledOut(ctx context.Context, d *appsv1.Deployment) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(read(ctx, d)).To(Succeed())
		g.Expect(d.Status).To(And(HaveField("ObservedGeneration", d.Generation),
			HaveField("UpdatedReplicas", *d.Spec.Replicas),
			HaveField("AvailableReplicas", *d.Spec.Replicas), HaveField("Replicas", *d.Spec.Replicas)))
	}).WithContext(ctx).WithTimeout(8 * time.Minute).WithPolling(200 * time.Millisecond).Should(Succeed())
}

var _ = Describe("A Deployment that nearly fills its nodes", func() {
	replicas := rolloutPods()
	nodes := nodesToUpdate(replicas)
	text := fmt.Sprintf("of %d pods on %d nodes is rolled out and updated: each pod is bound once, no node has more "+
		"pods than fit, and the pods of a deleted node are replaced", replicas, nodes)

	It(text, func(ctx context.Context) {
		start(ctx)
		Expect(controlplane.CreateNodes(ctx, Cluster.Config, nodes)).To(Succeed())
		addNodes(ctx, Tainted(NodeOf("lost", "pool", "other"), "pool"),
			Tainted(NodeOf("kept", "pool", "other"), "pool"))
		l := startLedger(ctx)
		Create(ctx, replicaSetOf("other", 4, Selecting("pool", "other"), Tolerating("pool"), preferringApart("other")))
		Expect(expectRunning(ctx, "other", 4)).To(Equal(map[string]int{"lost": 2, "kept": 2}))
		web := deploymentOf("web", replicas, CPU(fmt.Sprintf("%dm", rolloutCPU)))
		Create(ctx, web)
		expectRolledOut(ctx, web)
		old := map[types.UID]bool{}
		for _, pod := range podsOf(ctx, "web") {
			old[pod.UID] = true
		}

		By("deleting a node, whose pods kube-controller-manager deletes about a minute later")
		Expect(K8s.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "lost"}})).To(Succeed())
		By("updating all pods before that")
		Update(ctx, web, func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[0].Image = "registry.example/pause:2"
		})
		expectRolledOut(ctx, web)

		var pods []corev1.Pod
		Eventually(func() int {
			pods = podsOf(ctx, "web")
			return len(pods)
		}).WithContext(ctx).WithPolling(200*time.Millisecond).Should(Equal(replicas), "the last old pods are deleted")
		for _, pod := range pods {
			Expect(old).NotTo(HaveKey(pod.UID))
			Expect(pod.Status.Phase).To(Equal(corev1.PodRunning))
			Expect(pod.Spec.Containers[0].Image).To(HaveSuffix(":2"))
		}
		Eventually(func() map[string]int {
			return running(ctx, "other")
		}).WithContext(ctx).WithTimeout(5 * time.Minute).WithPolling(500 * time.Millisecond).
			Should(Equal(map[string]int{"kept": 4}))
		l.expectRight(ctx)

		By("checking the Events")
		bound := 2*replicas + 4 + 2
		scheduled := map[types.UID]int{}
		Eventually(func() int {
			clear(scheduled)
			for _, event := range eventsOf(ctx, "Scheduled") {
				scheduled[event.Regarding.UID]++
			}
			return len(scheduled)
		}).WithContext(ctx).WithPolling(500 * time.Millisecond).Should(BeNumerically(">=", bound))
		Expect(scheduled).To(HaveEach(1), "one Event for each binding")
		// Terminating pods may still use the room of a pod. Every pod that did not fit was
		// scheduled later.
		for _, event := range eventsOf(ctx, "FailedScheduling") {
			Expect(event.Note).
				To(And(Or(HavePrefix("0/%d nodes", nodes+1), HavePrefix("0/%d nodes", nodes+2)),
					ContainSubstring("%d Insufficient cpu", nodes)))
			Expect(scheduled).To(HaveKey(event.Regarding.UID))
		}
	}, SpecTimeout(20*time.Minute))
})

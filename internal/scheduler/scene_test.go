// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler_test

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/test/scenes"
)

// play creates the cluster of a scene, has its pod come, and waits for the outcome.
func play(ctx context.Context, scene scenes.Scene) {
	GinkgoHelper()
	cluster, err := scene.Cluster()
	Expect(err).NotTo(HaveOccurred())
	for _, node := range cluster.Nodes {
		create(ctx, node)
	}
	for _, pod := range cluster.Pods {
		createAnywhere(ctx, pod)
	}
	expectSeen(ctx, len(cluster.Nodes))
	createAnywhere(ctx, cluster.Pod)
	if want := scene.Outcome; len(want.Nodes) > 0 {
		Expect(expectBound(ctx, cluster.Pod)).To(BeElementOf(want.Nodes))
	} else {
		expectUnscheduled(ctx, cluster.Pod, corev1.PodReasonUnschedulable,
			HavePrefix(fmt.Sprintf("0/%d nodes are available: %s. ", len(cluster.Nodes), want.Reasons)))
	}
}

// createAnywhere creates a pod in whatever namespace until the end of the spec.
func createAnywhere(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	if pod.Namespace == metav1.NamespaceDefault {
		create(ctx, pod)
	} else {
		createFor(ctx, pod)
	}
}

// stage has the specs of an Ordered container share one scheduler, with profiles in YAML by name.
// Starting one for each would take most of their time. Each spec begins with a scheduler that knows
// of no node and of no pod.
func stage(profiles map[string]string) {
	BeforeAll(func(ctx context.Context) {
		DeferCleanup(func(ctx context.Context) {
			shared = false
			Expect(cluster.Clear(ctx)).To(Succeed())
		})
		shared = true
		startProfiles(ctx, profiles)
	})
	BeforeEach(func(ctx context.Context) { expectSeen(ctx, 0) })
}

// expectSeen waits until the scheduler knows of that many nodes, and of all pods that came or went
// until now: it lets a pod that fits nowhere ask. Pods come to the scheduler in the order in which
// they change, so those before it are known when it is; nodes come by another way.
func expectSeen(ctx context.Context, nodes int) {
	GinkgoHelper()
	want := fmt.Sprintf("0/%d nodes are available: ", nodes)
	if nodes == 0 {
		want = "no nodes available to schedule pods"
	}
	for probe := 0; ; probe++ {
		pod := createPod(ctx, "mine", fmt.Sprintf("probe-%d", probe), selecting("no-node", "has-this"))
		expectUnscheduled(ctx, pod, corev1.PodReasonUnschedulable, Not(BeEmpty()))
		message := pod.Status.Conditions[0].Message
		Expect(k8s.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
		if strings.HasPrefix(message, want) {
			return
		}
		Expect(probe).To(BeNumerically("<", 1000), "the scheduler says %q", message)
	}
}

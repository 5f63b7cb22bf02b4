// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	. "github.com/livesched/livesched/test/e2e/framework"
	"github.com/livesched/livesched/test/scenes"
)

// play creates the cluster of a scene and then its pod, and waits for the outcome.
func play(ctx context.Context, scene scenes.Scene) {
	GinkgoHelper()
	cluster, err := scene.Cluster()
	Expect(err).NotTo(HaveOccurred())
	if slices.ContainsFunc(cluster.Nodes, func(n *corev1.Node) bool { return len(n.Status.DeclaredFeatures) > 0 }) {
		NeedsServer("1.36", "it drops the features that nodes declare, and the fields of pods that need them")
	}
	for _, node := range cluster.Nodes {
		Create(ctx, node)
	}
	for _, pod := range cluster.Pods {
		createAnywhere(ctx, pod)
	}
	ExpectSeen(ctx, len(cluster.Nodes))
	createAnywhere(ctx, cluster.Pod)
	if want := scene.Outcome; len(want.Nodes) > 0 {
		Expect(ExpectBound(ctx, cluster.Pod)).To(BeElementOf(want.Nodes))
	} else {
		ExpectUnscheduled(ctx, cluster.Pod, corev1.PodReasonUnschedulable,
			HavePrefix(fmt.Sprintf("0/%d nodes are available: %s. ", len(cluster.Nodes), want.Reasons)))
	}
}

// createAnywhere creates a pod in any namespace until the end of the spec.
func createAnywhere(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	if pod.Namespace == metav1.NamespaceDefault {
		Create(ctx, pod)
	} else {
		CreateFor(ctx, pod)
	}
}

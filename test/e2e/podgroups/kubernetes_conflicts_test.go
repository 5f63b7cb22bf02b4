// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroups

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

// The entries have the names of kube-scheduler's own cases, in podgroup_affinity_test.go and
// podgroup_pvc_test.go of test/integration/scheduler/podgroup of Kubernetes 1.37.
var _ = Describe("The pods of a PodGroup of Kubernetes that exclude each other", Ordered, func() {
	inGroups()
	repelling := member("pg", "anti-pod", "1", Labelled("app", "foo"), AwayFrom("app", "foo"), onlyOn("n1"))
	plain := member("pg", "plain-pod", "1", Labelled("app", "foo"))

	DescribeTable("are scheduled as by kube-scheduler",
		func(ctx context.Context, steps ...step) { play(ctx, steps...) },
		Entry("anti-affinity honored across the cycle on a multi-topology cluster",
			sized("n1", "2"), sized("n2", "2"), gang("pg", 2, ""), repelling, plain,
			boundIn(corev1.LabelHostname, "n1", "anti-pod"), boundIn(corev1.LabelHostname, "n2", "plain-pod")),
		Entry("anti-affinity keeps the group unschedulable on a single-topology cluster",
			sized("n1", "2"), gang("pg", 2, ""), repelling, plain,
			unschedulable("anti-pod", "plain-pod"), condition("pg", metav1.ConditionFalse, "Unschedulable")),
		Entry("two pods sharing a ReadWriteOncePod PVC keep the group unschedulable",
			sized("n1", "2"), exclusive("pvc-1"), gang("pg", 2, ""),
			member("pg", "pvc-pod-1", "1", UsingClaim("pvc-1")), member("pg", "pvc-pod-2", "1", UsingClaim("pvc-1")),
			unschedulable("pvc-pod-1", "pvc-pod-2"), condition("pg", metav1.ConditionFalse, "Unschedulable")),
		Entry("two pods with distinct ReadWriteOncePod PVCs are scheduled",
			sized("n1", "2"), exclusive("pvc-1"), exclusive("pvc-2"), gang("pg", 2, ""),
			member("pg", "pvc-pod-1", "1", UsingClaim("pvc-1")), member("pg", "pvc-pod-2", "1", UsingClaim("pvc-2")),
			bound("pvc-pod-1", "pvc-pod-2")),
	)
})

// exclusive creates a claim that one pod at a time may use, with a volume on the node n1.
func exclusive(name string) step {
	return func(ctx context.Context, _ *stage) {
		GinkgoHelper()
		claim, volume := ClaimOf(name, "exclusive"), VolumeOn(name, "exclusive", "n1")
		modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
		claim.Spec.AccessModes, volume.Spec.AccessModes = modes, modes
		CreateVolumes(ctx, volume, claim)
		BindVolume(ctx, volume, claim)
		ExpectCached(ctx, claim)
	}
}

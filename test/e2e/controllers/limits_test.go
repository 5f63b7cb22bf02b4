// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

// csiNode returns the object in which the CSI driver reports how many volumes can be attached to a
// node.
func csiNode(name string, count int32) *storagev1.CSINode {
	return &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{
			Name: driver, NodeID: name, Allocatable: &storagev1.VolumeNodeResources{Count: ptr.To(count)},
		}}},
	}
}

// attached returns a node to which kube-controller-manager attaches the volumes of pods. It creates
// a VolumeAttachment for each.
func attached(name string) *corev1.Node {
	node := NodeOf(name)
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, "volumes.kubernetes.io/controller-managed-attach-detach", "true")
	return node
}

// attach does what the external attacher of the CSI driver does: it waits for n VolumeAttachments
// and marks them as attached.
func attach(ctx context.Context, n int) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var list storagev1.VolumeAttachmentList
		g.Expect(K8s.List(ctx, &list)).To(Succeed())
		g.Expect(list.Items).To(HaveLen(n))
		for _, attachment := range list.Items {
			attachment.Status.Attached = true
			g.Expect(K8s.Status().Update(ctx, &attachment)).To(Succeed())
		}
	}).WithContext(ctx).Should(Succeed())
}

var _ = Describe("The number of volumes on a node", func() {
	const (
		full     = "node(s) exceed max volume count"
		noVictim = " preemption: 0/1 nodes are available: 1 No preemption victims found " +
			"for incoming pod."
	)
	// volumes creates claims with volumes that every node can use, and waits until they are bound.
	volumes := func(ctx context.Context, names ...string) {
		GinkgoHelper()
		class := classOf("csi", driver, storagev1.VolumeBindingImmediate)
		CreateFor(ctx, class)
		for _, name := range names {
			volume, claim := csiVolume(name, class), claimOf(name, class)
			volume.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: namespace,
				Name: name}
			createVolumes(ctx, volume)
			Create(ctx, claim)
			expectBoundTogether(ctx, claim, volume)
		}
	}

	BeforeEach(func(ctx context.Context) {
		start(ctx)
		CreateFor(ctx, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}})
		DeferCleanup(func(ctx context.Context) {
			Expect(K8s.DeleteAllOf(ctx, &storagev1.VolumeAttachment{})).To(Succeed())
		})
	})

	It("is limited by its CSI driver; a pod waits until a volume is detached or the limit is raised",
		func(ctx context.Context) {
			addNodes(ctx, attached("n1"))
			limit := csiNode("n1", 2)
			CreateFor(ctx, limit)
			volumes(ctx, "a", "b", "c", "d")
			a, b := createPod(ctx, "a", UsingClaim("a")), createPod(ctx, "b", UsingClaim("b"))
			expectPodsRunning(ctx, a, b)
			By("using a volume that is already attached")
			expectPodsRunning(ctx, createPod(ctx, "a-too", UsingClaim("a")))
			c := createPod(ctx, "c", UsingClaim("c"))
			ExpectUnschedulable(ctx, c, "0/1 nodes are available: 1 "+full+"."+noVictim)
			attach(ctx, 2)

			Expect(K8s.Delete(ctx, b)).To(Succeed())
			Expect(expectPodsRunning(ctx, c)).To(Equal("n1"))
			attach(ctx, 2)

			d := createPod(ctx, "d", UsingClaim("d"))
			ExpectUnschedulable(ctx, d, "0/1 nodes are available: 1 "+full+"."+noVictim)
			if !ServerAtLeast("1.35") {
				return // there, the limit cannot change
			}
			Update(ctx, limit, func(n *storagev1.CSINode) { n.Spec.Drivers[0].Allocatable.Count = ptr.To[int32](3) })
			Expect(expectPodsRunning(ctx, d)).To(Equal("n1"))
		})

	It("has no limit before the CSI driver reports one; then a pod of a higher priority preempts others",
		func(ctx context.Context) {
			CreateClasses(ctx, PriorityClass("important", 1000))
			addNodes(ctx, NodeOf("n1"))
			volumes(ctx, "a", "b", "c")
			a := createPod(ctx, "a", UsingClaim("a"))
			expectPodsRunning(ctx, a)
			CreateFor(ctx, csiNode("n1", 1))
			// livesched watches CSINodes and pods separately, and may see this pod before the
			// limit. When it has handled the pod, it has had time to see the limit.
			seen := createPod(ctx, "b", UsingClaim("b"))
			Eventually(func(g Gomega) {
				g.Expect(read(ctx, seen)).To(Succeed())
				g.Expect(*seen).To(Or(BeUnschedulable(ContainSubstring(full)), HaveField("Spec.NodeName", "n1")))
			}).WithContext(ctx).Should(Succeed())
			important := createPod(ctx, "c", UsingClaim("c"), Prioritized("important"))
			expectPodsRunning(ctx, important)
			ExpectGone(ctx, a)
		})
})

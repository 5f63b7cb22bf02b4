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
)

// csiNode returns a CSI driver's report of how many volumes can be attached to a node.
func csiNode(name string, count int32) *storagev1.CSINode {
	return &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{
			Name: driver, NodeID: name, Allocatable: &storagev1.VolumeNodeResources{Count: ptr.To(count)},
		}}},
	}
}

// attached makes kube-controller-manager attach the volumes of a node, which it announces with
// VolumeAttachments.
func attached(node *corev1.Node) {
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, "volumes.kubernetes.io/controller-managed-attach-detach", "true")
}

// attach plays the external attacher of the driver: it waits for that many VolumeAttachments, and
// marks them as attached.
func attach(ctx context.Context, n int) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var list storagev1.VolumeAttachmentList
		g.Expect(k8s.List(ctx, &list)).To(Succeed())
		g.Expect(list.Items).To(HaveLen(n))
		for _, attachment := range list.Items {
			attachment.Status.Attached = true
			g.Expect(k8s.Status().Update(ctx, &attachment)).To(Succeed())
		}
	}).WithContext(ctx).Should(Succeed())
}

var _ = Describe("The number of volumes on a node", func() {
	const (
		full     = "node(s) exceed max volume count"
		noVictim = " no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
	)
	// volumes creates claims with volumes that every node can use, and waits until they are bound.
	volumes := func(ctx context.Context, names ...string) {
		GinkgoHelper()
		class := classOf("csi", driver, storagev1.VolumeBindingImmediate)
		createFor(ctx, class)
		for _, name := range names {
			volume, claim := volumeOn(name, class, ""), claimOf(name, class)
			volume.Spec.NodeAffinity = nil
			volume.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: volume.Name}}
			volume.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: namespace, Name: name}
			createFor(ctx, volume)
			create(ctx, claim)
			expectBoundTogether(ctx, claim, volume)
		}
	}

	BeforeEach(func(ctx context.Context) {
		start(ctx)
		createFor(ctx, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}})
		DeferCleanup(func(ctx context.Context) {
			Expect(k8s.DeleteAllOf(ctx, &storagev1.VolumeAttachment{})).To(Succeed())
		})
	})

	It("is what its CSI driver says at most; a pod waits for a volume to be detached, or for more to be allowed", func(ctx context.Context) {
		createNodes(ctx, nodeOf("n1", attached))
		limit := csiNode("n1", 2)
		createFor(ctx, limit)
		volumes(ctx, "a", "b", "c", "d")
		a, b := createPod(ctx, "a", using("a")), createPod(ctx, "b", using("b"))
		expectPodsRunning(ctx, a, b)
		By("sharing a volume that is attached already")
		expectPodsRunning(ctx, createPod(ctx, "a-too", using("a")))
		c := createPod(ctx, "c", using("c"))
		expectUnschedulable(ctx, c, "0/1 nodes are available: 1 "+full+"."+noVictim)
		attach(ctx, 2)

		Expect(k8s.Delete(ctx, b)).To(Succeed())
		Expect(expectPodsRunning(ctx, c)).To(Equal("n1"))
		attach(ctx, 2)

		d := createPod(ctx, "d", using("d"))
		expectUnschedulable(ctx, d, "0/1 nodes are available: 1 "+full+"."+noVictim)
		update(ctx, limit, func(n *storagev1.CSINode) { n.Spec.Drivers[0].Allocatable.Count = ptr.To[int32](3) })
		Expect(expectPodsRunning(ctx, d)).To(Equal("n1"))
	})

	It("is not limited before the driver has said so, and a more important pod has others make room", func(ctx context.Context) {
		createClass(ctx, "important", 1000)
		nodes(ctx, "n1")
		volumes(ctx, "a", "b", "c")
		a := createPod(ctx, "a", using("a"))
		expectPodsRunning(ctx, a)
		createFor(ctx, csiNode("n1", 1))
		// livesched may not have seen the new limit when the pod arrives: make a request that
		// requires having seen it.
		seen := createPod(ctx, "b", using("b"))
		Eventually(func(g Gomega) {
			g.Expect(read(ctx, seen)).To(Succeed())
			g.Expect(*seen).To(Or(unschedulable(ContainSubstring(full)), HaveField("Spec.NodeName", "n1")))
		}).WithContext(ctx).Should(Succeed())
		important := createPod(ctx, "c", using("c"), prioritized("important"))
		expectPodsRunning(ctx, important)
		expectGone(ctx, a)
	})
})

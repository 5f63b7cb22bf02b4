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

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

const (
	noVolumes = "2 node(s) didn't find available persistent volumes to bind."
	noHelp    = " preemption: 0/2 nodes are available: 2 Preemption is not helpful for " +
		"scheduling."
	ofTwo = "0/2 nodes are available: "
)

var _ = Describe("A pod whose claim waits for its first consumer", func() {
	var class *storagev1.StorageClass

	BeforeEach(func(ctx context.Context) {
		start(ctx)
		addNodes(ctx, nodesOf("n1", "n2")...)
		class = localClass()
		CreateFor(ctx, class)
	})

	It("runs on the node of a volume, and claim and volume are bound to each other", func(ctx context.Context) {
		createPod(ctx, "filler", CPU("3"), OnNode("n2")) // without the volume, a pod would prefer n1
		volume, claim := volumeOn("v", class, "n2"), claimOf("claim", class)
		createVolumes(ctx, volume)
		Create(ctx, claim)
		Expect(expectPodsRunning(ctx, createPod(ctx, "pod", UsingClaim("claim")))).To(Equal("n2"))
		expectBoundTogether(ctx, claim, volume)
	})

	It("waits for its claim, its class and a volume", func(ctx context.Context) {
		other := classOf("other", class.Provisioner, storagev1.VolumeBindingWaitForFirstConsumer)
		pod := createPod(ctx, "pod", UsingClaim("claim"))
		ExpectUnschedulable(ctx, pod, ofTwo+`persistentvolumeclaim "claim" not found. not found`)
		Create(ctx, claimOf("claim", other))
		ExpectUnschedulable(ctx, pod, ofTwo+"pod has unbound immediate PersistentVolumeClaims. not found")
		CreateFor(ctx, other)
		ExpectUnschedulable(ctx, pod, ofTwo+noVolumes+noHelp)
		createVolumes(ctx, volumeOn("v", other, "n1"))
		Expect(expectPodsRunning(ctx, pod)).To(Equal("n1"))
	})

	It("waits if another pod gets the only volume, and gets the next volume", func(ctx context.Context) {
		first := volumeOn("first", class, "n2")
		createVolumes(ctx, first)
		Create(ctx, claimOf("a", class), claimOf("b", class))
		a, b := createPod(ctx, "a", UsingClaim("a")), createPod(ctx, "b", UsingClaim("b"))
		var winner, loser *corev1.Pod
		Eventually(func(g Gomega) {
			for _, pods := range [][]*corev1.Pod{{a, b}, {b, a}} {
				g.Expect(read(ctx, pods[0])).To(Succeed())
				if pods[0].Status.Phase == corev1.PodRunning {
					winner, loser = pods[0], pods[1]
				}
			}
			g.Expect(winner).NotTo(BeNil())
		}).WithContext(ctx).Should(Succeed())
		Expect(winner.Spec.NodeName).To(Equal("n2"))
		ExpectUnschedulable(ctx, loser, ofTwo+noVolumes+noHelp)

		second := volumeOn("second", class, "n1")
		createVolumes(ctx, second)
		Expect(expectPodsRunning(ctx, loser)).To(Equal("n1"))
		expectBoundTogether(ctx, claimOf(winner.Name, class), first)
		expectBoundTogether(ctx, claimOf(loser.Name, class), second)
	})

	It("gets all of its volumes on one node, and waits while no node has enough", func(ctx context.Context) {
		createVolumes(ctx, volumeOn("one", class, "n1"), volumeOn("two", class, "n2"))
		Create(ctx, claimOf("a", class), claimOf("b", class))
		pod := createPod(ctx, "pod", UsingClaim("a"), UsingClaim("b"))
		ExpectUnschedulable(ctx, pod, ofTwo+noVolumes+noHelp)
		createVolumes(ctx, volumeOn("three", class, "n2"))
		Expect(expectPodsRunning(ctx, pod)).To(Equal("n2"))
	})

	It("releases its room when it is deleted while the claim is being bound, and the claim keeps the volume",
		func(ctx context.Context) {
			volume, claim := volumeOn("v", class, "n2"), claimOf("claim", class)
			createVolumes(ctx, volume)
			Create(ctx, claim)
			resume := suspendControllers(ctx, volume)
			pod := createPod(ctx, "pod", UsingClaim("claim"), CPU("3"))
			expectReserved(ctx, volume, claim, pod, "n2")
			Expect(K8s.Delete(ctx, pod)).To(Succeed())
			ExpectGone(ctx, pod)
			Expect(expectPodsRunning(ctx, createPod(ctx, "other", CPU("4"), Selecting(corev1.LabelHostname, "n2")))).
				To(Equal("n2"))

			resume()
			expectBoundTogether(ctx, claim, volume)
			ExpectUnschedulable(ctx, createPod(ctx, "next", UsingClaim("claim")),
				ofTwo+"1 Insufficient cpu, 1 node(s) didn't match PersistentVolume's node affinity."+
					" preemption: 0/2 nodes are available: 1 No preemption victims "+
					"found for incoming pod, 1 Preemption is not helpful for scheduling.")
		})

	It("can be preempted while the claim is being bound, is not deleted, and is scheduled again",
		func(ctx context.Context) {
			CreateClasses(ctx, PriorityClass("important", 1000))
			volume, claim := volumeOn("v", class, "n2"), claimOf("claim", class)
			createVolumes(ctx, volume)
			Create(ctx, claim)
			resume := suspendControllers(ctx, volume)
			low := createPod(ctx, "low", UsingClaim("claim"), CPU("3"))
			expectReserved(ctx, volume, claim, low, "n2")
			high := createPod(ctx, "high", CPU("4"), Selecting(corev1.LabelHostname, "n2"), Prioritized("important"))
			Expect(expectPodsRunning(ctx, high)).To(Equal("n2"))
			ExpectUnschedulable(ctx, low,
				ofTwo+"1 Insufficient cpu, 1 node(s) didn't find available persistent volumes to bind."+
					" preemption: 0/2 nodes are available: 1 No preemption victims "+
					"found for incoming pod, 1 Preemption is not helpful for scheduling.")
			resume()
			expectBoundTogether(ctx, claim, volume)
			Expect(K8s.Delete(ctx, high)).To(Succeed())
			Expect(expectPodsRunning(ctx, low)).To(Equal("n2"))
		})

	It("gets its claim from its own template, and the claim is deleted with the pod", func(ctx context.Context) {
		createVolumes(ctx, volumeOn("v", class, "n1"))
		pod := createPod(ctx, "pod", func(pod *corev1.Pod) {
			pod.Spec.Volumes = []corev1.Volume{
				{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
					VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: claimOf("", class).Spec},
				}}}}
		})
		Expect(expectPodsRunning(ctx, pod)).To(Equal("n1"))
		claim := claimOf("pod-scratch", class)
		Expect(read(ctx, claim)).To(Succeed())
		Expect(metav1.IsControlledBy(claim, pod)).To(BeTrue())
		Expect(K8s.Delete(ctx, pod)).To(Succeed())
		ExpectGone(ctx, claim)
	})
})

var _ = Describe("A pod whose claim is bound immediately", func() {
	var class *storagev1.StorageClass

	BeforeEach(func(ctx context.Context) {
		start(ctx)
		class = classOf("immediate", "kubernetes.io/no-provisioner", storagev1.VolumeBindingImmediate)
		CreateFor(ctx, class)
	})

	It("waits until the claim is bound, and runs on the node of the volume", func(ctx context.Context) {
		addNodes(ctx, nodesOf("n1", "n2")...)
		claim := claimOf("claim", class)
		Create(ctx, claim)
		pod := createPod(ctx, "pod", UsingClaim("claim"))
		ExpectUnschedulable(ctx, pod, ofTwo+"pod has unbound immediate PersistentVolumeClaims. not found")
		createPod(ctx, "filler", CPU("3"), OnNode("n2"))
		volume := volumeOn("v", class, "n2")
		createVolumes(ctx, volume)
		Expect(expectPodsRunning(ctx, pod)).To(Equal("n2"))
		expectBoundTogether(ctx, claim, volume)
	})

	It("runs in the zone of the volume's label, and waits for room there", func(ctx context.Context) {
		addNodes(ctx, NodeOf("a1", corev1.LabelTopologyZone, "a"), NodeOf("b1", corev1.LabelTopologyZone, "b"))
		volume, claim := volumeOn("v", class, ""), claimOf("claim", class)
		volume.Labels = map[string]string{corev1.LabelTopologyZone: "b"}
		volume.Spec.NodeAffinity = nil
		volume.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{
			NFS: &corev1.NFSVolumeSource{Server: "nfs.example", Path: "/"}}
		createVolumes(ctx, volume)
		Create(ctx, claim)
		filler := createPod(ctx, "filler", CPU("4"), OnNode("b1"))
		expectPodsRunning(ctx, filler)
		pod := createPod(ctx, "pod", UsingClaim("claim"))
		ExpectUnschedulable(ctx, pod, ofTwo+"1 Insufficient cpu, 1 node(s) had no available volume zone."+
			" preemption: 0/2 nodes are available: 1 No preemption victims found for "+
			"incoming pod, 1 Preemption is not helpful for scheduling.")
		Expect(K8s.Delete(ctx, filler)).To(Succeed())
		Expect(expectPodsRunning(ctx, pod)).To(Equal("b1"))
	})

	It("with the access mode ReadWriteOncePod waits for the pod that uses the claim, or preempts it if its own "+
		"priority is higher", func(ctx context.Context) {
		CreateClasses(ctx, PriorityClass("important", 1000))
		addNodes(ctx, nodesOf("n1", "n2")...)
		volume, claim := csiVolume("v", class), claimOf("claim", class)
		for _, modes := range []*[]corev1.PersistentVolumeAccessMode{&volume.Spec.AccessModes,
			&claim.Spec.AccessModes} {
			*modes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
		}
		createVolumes(ctx, volume)
		Create(ctx, claim)
		first := createPod(ctx, "first", UsingClaim("claim"))
		expectPodsRunning(ctx, first)
		second := createPod(ctx, "second", UsingClaim("claim"))
		const inUse = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already " +
			"in-use by another pod"
		ExpectUnschedulable(ctx, second, ofTwo+"2 "+inUse+". preemption: 0/2 nodes are "+
			"available: 2 No preemption victims found for incoming pod.")
		Expect(K8s.Delete(ctx, first)).To(Succeed())
		expectPodsRunning(ctx, second)

		important := createPod(ctx, "third", UsingClaim("claim"), Prioritized("important"))
		expectPodsRunning(ctx, important)
		ExpectGone(ctx, second)
	})

	It("is not scheduled while the claim is being deleted", func(ctx context.Context) {
		addNodes(ctx, nodesOf("n1", "n2")...)
		volume, claim := volumeOn("v", class, "n1"), claimOf("claim", class)
		createVolumes(ctx, volume)
		Create(ctx, claim)
		user := createPod(ctx, "user", UsingClaim("claim"))
		expectPodsRunning(ctx, user)
		Expect(K8s.Delete(ctx, claim)).To(Succeed())
		ExpectUnschedulable(ctx, createPod(ctx, "late", UsingClaim("claim")),
			ofTwo+`persistentvolumeclaim "claim" is being deleted. not found`)
		Expect(K8s.Delete(ctx, user)).To(Succeed())
		ExpectGone(ctx, claim)
	})
})

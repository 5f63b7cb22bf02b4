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
)

const (
	noVolumes = "2 node(s) didn't find available persistent volumes to bind."
	noHelp    = " no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
	ofTwo     = "0/2 nodes are available: "
)

var _ = Describe("A pod whose claim waits for its first consumer", func() {
	var class *storagev1.StorageClass

	BeforeEach(func(ctx context.Context) {
		start(ctx)
		nodes(ctx, "n1", "n2")
		class = localClass()
		createFor(ctx, class)
	})

	It("goes where a volume is, and both are bound to each other", func(ctx context.Context) {
		createPod(ctx, "filler", cpu("3"), onNode("n2")) // the filler would send it elsewhere
		volume, claim := volumeOn("v", class, "n2"), claimOf("claim", class)
		createFor(ctx, volume)
		create(ctx, claim)
		Expect(expectPodsRunning(ctx, createPod(ctx, "pod", using("claim")))).To(Equal("n2"))
		expectBoundTogether(ctx, claim, volume)
	})

	It("waits for its class, its claim and a volume, whatever comes last", func(ctx context.Context) {
		other := classOf("other", class.Provisioner, storagev1.VolumeBindingWaitForFirstConsumer)
		pod := createPod(ctx, "pod", using("claim"))
		expectUnschedulable(ctx, pod, ofTwo+`persistentvolumeclaim "claim" not found. not found`)
		create(ctx, claimOf("claim", other))
		expectUnschedulable(ctx, pod, ofTwo+"pod has unbound immediate PersistentVolumeClaims. not found")
		createFor(ctx, other)
		expectUnschedulable(ctx, pod, ofTwo+noVolumes+noHelp)
		createFor(ctx, volumeOn("v", other, "n1"))
		Expect(expectPodsRunning(ctx, pod)).To(Equal("n1"))
	})

	It("competes for the one volume, and the loser gets the next that comes", func(ctx context.Context) {
		first := volumeOn("first", class, "n2")
		createFor(ctx, first)
		create(ctx, claimOf("a", class), claimOf("b", class))
		a, b := createPod(ctx, "a", using("a")), createPod(ctx, "b", using("b"))
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
		expectUnschedulable(ctx, loser, ofTwo+noVolumes+noHelp)

		second := volumeOn("second", class, "n1")
		createFor(ctx, second)
		Expect(expectPodsRunning(ctx, loser)).To(Equal("n1"))
		expectBoundTogether(ctx, claimOf(winner.Name, class), first)
		expectBoundTogether(ctx, claimOf(loser.Name, class), second)
	})

	It("gets all of its volumes on one node, and waits where no node has enough", func(ctx context.Context) {
		createFor(ctx, volumeOn("one", class, "n1"), volumeOn("two", class, "n2"))
		create(ctx, claimOf("a", class), claimOf("b", class))
		pod := createPod(ctx, "pod", using("a"), using("b"))
		expectUnschedulable(ctx, pod, ofTwo+noVolumes+noHelp)
		createFor(ctx, volumeOn("three", class, "n2"))
		Expect(expectPodsRunning(ctx, pod)).To(Equal("n2"))
	})

	It("gives its room back when it is deleted while the claim is being bound, and the claim keeps the volume", func(ctx context.Context) {
		volume, claim := volumeOn("v", class, "n2"), claimOf("claim", class)
		createFor(ctx, volume)
		create(ctx, claim)
		resume := suspendControllers(ctx, volume)
		pod := createPod(ctx, "pod", using("claim"), cpu("3"))
		expectPromised(ctx, volume, claim, pod, "n2")
		Expect(k8s.Delete(ctx, pod)).To(Succeed())
		expectGone(ctx, pod)
		Expect(expectPodsRunning(ctx, createPod(ctx, "other", cpu("4"), selecting(corev1.LabelHostname, "n2")))).To(Equal("n2"))

		resume()
		expectBoundTogether(ctx, claim, volume)
		expectUnschedulable(ctx, createPod(ctx, "next", using("claim")),
			ofTwo+"1 Insufficient cpu, 1 node(s) didn't match PersistentVolume's node affinity."+
				" no new claims to deallocate, preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling.")
	})

	It("makes room for a more important one while the claim is being bound, and lives to be scheduled again", func(ctx context.Context) {
		createClass(ctx, "important", 1000)
		volume, claim := volumeOn("v", class, "n2"), claimOf("claim", class)
		createFor(ctx, volume)
		create(ctx, claim)
		resume := suspendControllers(ctx, volume)
		low := createPod(ctx, "low", using("claim"), cpu("3"))
		expectPromised(ctx, volume, claim, low, "n2")
		high := createPod(ctx, "high", cpu("4"), selecting(corev1.LabelHostname, "n2"), prioritized("important"))
		Expect(expectPodsRunning(ctx, high)).To(Equal("n2"))
		expectUnschedulable(ctx, low, ofTwo+"1 Insufficient cpu, 1 node(s) didn't find available persistent volumes to bind."+
			" no new claims to deallocate, preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling.")
		resume()
		expectBoundTogether(ctx, claim, volume)
		Expect(k8s.Delete(ctx, high)).To(Succeed())
		Expect(expectPodsRunning(ctx, low)).To(Equal("n2"))
	})

	It("gets its claim from its own template, and the claim goes with it", func(ctx context.Context) {
		createFor(ctx, volumeOn("v", class, "n1"))
		pod := createPod(ctx, "pod", func(t *corev1.PodTemplateSpec) {
			t.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
				VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: claimSpec(class)},
			}}}}
		})
		Expect(expectPodsRunning(ctx, pod)).To(Equal("n1"))
		claim := claimOf("pod-scratch", class)
		Expect(read(ctx, claim)).To(Succeed())
		Expect(metav1.IsControlledBy(claim, pod)).To(BeTrue())
		Expect(k8s.Delete(ctx, pod)).To(Succeed())
		expectGone(ctx, claim)
	})
})

var _ = Describe("A pod whose claim is bound at once", func() {
	var class *storagev1.StorageClass

	BeforeEach(func(ctx context.Context) {
		start(ctx)
		class = classOf("immediate", "kubernetes.io/no-provisioner", storagev1.VolumeBindingImmediate)
		createFor(ctx, class)
	})

	It("waits until it is, and follows the volume", func(ctx context.Context) {
		nodes(ctx, "n1", "n2")
		claim := claimOf("claim", class)
		create(ctx, claim)
		pod := createPod(ctx, "pod", using("claim"))
		expectUnschedulable(ctx, pod, ofTwo+"pod has unbound immediate PersistentVolumeClaims. not found")
		createPod(ctx, "filler", cpu("3"), onNode("n2"))
		volume := volumeOn("v", class, "n2")
		createFor(ctx, volume)
		Expect(expectPodsRunning(ctx, pod)).To(Equal("n2"))
		expectBoundTogether(ctx, claim, volume)
	})

	It("goes to the zone that the volume's label names, and waits for room there", func(ctx context.Context) {
		createNodes(ctx, nodeOf("a1", withNodeLabel(corev1.LabelTopologyZone, "a")), nodeOf("b1", withNodeLabel(corev1.LabelTopologyZone, "b")))
		volume, claim := volumeOn("v", class, ""), claimOf("claim", class)
		volume.Labels = map[string]string{corev1.LabelTopologyZone: "b"}
		volume.Spec.NodeAffinity = nil
		volume.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "nfs.example", Path: "/"}}
		createFor(ctx, volume)
		create(ctx, claim)
		filler := createPod(ctx, "filler", cpu("4"), onNode("b1"))
		expectPodsRunning(ctx, filler)
		pod := createPod(ctx, "pod", using("claim"))
		expectUnschedulable(ctx, pod, ofTwo+"1 Insufficient cpu, 1 node(s) had no available volume zone."+
			" no new claims to deallocate, preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling.")
		Expect(k8s.Delete(ctx, filler)).To(Succeed())
		Expect(expectPodsRunning(ctx, pod)).To(Equal("b1"))
	})

	It("that only one pod may use has that pod to itself, until a more important one comes", func(ctx context.Context) {
		createClass(ctx, "important", 1000)
		nodes(ctx, "n1", "n2")
		volume, claim := volumeOn("v", class, "n1"), claimOf("claim", class)
		volume.Spec.NodeAffinity = nil
		volume.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.example.com", VolumeHandle: "v"}}
		for _, modes := range []*[]corev1.PersistentVolumeAccessMode{&volume.Spec.AccessModes, &claim.Spec.AccessModes} {
			*modes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
		}
		createFor(ctx, volume)
		create(ctx, claim)
		first := createPod(ctx, "first", using("claim"))
		expectPodsRunning(ctx, first)
		second := createPod(ctx, "second", using("claim"))
		const inUse = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
		expectUnschedulable(ctx, second, ofTwo+"2 "+inUse+". no new claims to deallocate, preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.")
		Expect(k8s.Delete(ctx, first)).To(Succeed())
		expectPodsRunning(ctx, second)

		important := createPod(ctx, "third", using("claim"), prioritized("important"))
		expectPodsRunning(ctx, important)
		expectGone(ctx, second)
	})

	It("is not started from a claim that is being deleted", func(ctx context.Context) {
		nodes(ctx, "n1", "n2")
		volume, claim := volumeOn("v", class, "n1"), claimOf("claim", class)
		createFor(ctx, volume)
		create(ctx, claim)
		user := createPod(ctx, "user", using("claim"))
		expectPodsRunning(ctx, user)
		Expect(k8s.Delete(ctx, claim)).To(Succeed())
		expectUnschedulable(ctx, createPod(ctx, "late", using("claim")), ofTwo+`persistentvolumeclaim "claim" is being deleted. not found`)
		Expect(k8s.Delete(ctx, user)).To(Succeed())
		expectGone(ctx, claim)
	})
})

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// capacityOf returns a CSI driver's report of its room on a node.
func capacityOf(class *storagev1.StorageClass, node, quantity string) *storagev1.CSIStorageCapacity {
	return &storagev1.CSIStorageCapacity{
		ObjectMeta:       metav1.ObjectMeta{Namespace: namespace, Name: node},
		StorageClassName: class.Name,
		NodeTopology:     &metav1.LabelSelector{MatchLabels: map[string]string{topologyKey: node}},
		Capacity:         ptr.To(resource.MustParse(quantity)),
	}
}

func reportCapacity(ctx context.Context, node, quantity string) error {
	capacity := &storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: node}}
	if err := read(ctx, capacity); err != nil {
		return err
	}
	capacity.Capacity = ptr.To(resource.MustParse(quantity))
	return k8s.Update(ctx, capacity)
}

var _ = Describe("A pod whose volume is provisioned for it", func() {
	var class *storagev1.StorageClass

	BeforeEach(func(ctx context.Context) {
		start(ctx)
		createNodes(ctx, nodeOf("n1", withNodeLabel(topologyKey, "n1")), nodeOf("n2", withNodeLabel(topologyKey, "n2")))
		class = classOf("csi", driver, storagev1.VolumeBindingWaitForFirstConsumer)
		createFor(ctx, class)
		DeferCleanup(clearProvisioned)
	})

	anywhere := func(context.Context, string) error { return nil }
	// tracked makes the scheduler respect the capacity that the driver reports.
	tracked := func(ctx context.Context) {
		createFor(ctx, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: storagev1.CSIDriverSpec{StorageCapacity: ptr.To(true), AttachRequired: ptr.To(false)}})
	}
	noStorage := ofTwo + "2 node(s) did not have enough free storage." + noHelp

	It("selects its node for the provisioner, and runs there once there is a volume", func(ctx context.Context) {
		p := startProvisioner(ctx, anywhere)
		expectPodsRunning(ctx, createPod(ctx, "filler", cpu("3"), onNode("n1")))
		claim := claimOf("claim", class)
		create(ctx, claim)
		Expect(expectPodsRunning(ctx, createPod(ctx, "pod", using("claim")))).To(Equal("n2"))
		Expect(read(ctx, claim)).To(Succeed())
		Expect(claim.Annotations).To(HaveKeyWithValue(volume.AnnSelectedNode, "n2"))
		expectBoundTogether(ctx, claim, provisioned(claim, "n2"))
		Expect(p.wasAsked()).To(HaveEach("n2"))
	})

	It("keeps to the topology that the class allows", func(ctx context.Context) {
		startProvisioner(ctx, anywhere)
		narrow := classOf("narrow", driver, storagev1.VolumeBindingWaitForFirstConsumer)
		narrow.AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: topologyKey, Values: []string{"n3"}}}}}
		createFor(ctx, narrow)
		create(ctx, claimOf("claim", narrow))
		pod := createPod(ctx, "pod", using("claim"))
		expectUnschedulable(ctx, pod, ofTwo+noVolumes+noHelp)
		createNodes(ctx, nodeOf("n3", withNodeLabel(topologyKey, "n3")))
		Expect(expectPodsRunning(ctx, pod)).To(Equal("n3"))
	})

	It("goes to another node when provisioning fails where it was to go", func(ctx context.Context) {
		tracked(ctx)
		create(ctx, capacityOf(class, "n1", "100Gi"), capacityOf(class, "n2", "100Gi"))
		p := startProvisioner(ctx, func(ctx context.Context, node string) error {
			if node == "n2" {
				return nil
			}
			if err := reportCapacity(ctx, node, "0"); err != nil {
				return err
			}
			return errFull
		})
		expectPodsRunning(ctx, createPod(ctx, "filler", cpu("3"), onNode("n2"))) // it directs the pod to the first one first
		claim := claimOf("claim", class)
		create(ctx, claim)
		pod := createPod(ctx, "pod", using("claim"))
		Expect(expectPodsRunning(ctx, pod)).To(Equal("n2"))
		expectBoundTogether(ctx, claim, provisioned(claim, "n2"))
		asked := p.wasAsked()
		Expect(asked[0]).To(Equal("n1"))
		Expect(asked[1:]).To(HaveEach("n2"))
		Eventually(func() []string {
			var notes []string
			for _, event := range eventsOf(ctx, "FailedScheduling") {
				notes = append(notes, event.Note)
			}
			return notes
		}).WithContext(ctx).Should(ContainElement(`running PreBind plugin "VolumeBinding": binding volumes: provisioning failed for PVC "claim"`))
	})

	It("goes where the driver says that it has room, and waits while it has none", func(ctx context.Context) {
		tracked(ctx)
		startProvisioner(ctx, anywhere)
		create(ctx, claimOf("claim", class))
		pod := createPod(ctx, "pod", using("claim"))
		expectUnschedulable(ctx, pod, noStorage)
		By("reporting too little room, then enough")
		create(ctx, capacityOf(class, "n1", "100Mi"), capacityOf(class, "n2", "100Mi"))
		expectPending(ctx, pod)
		Expect(reportCapacity(ctx, "n2", "2Gi")).To(Succeed())
		Expect(expectPodsRunning(ctx, pod)).To(Equal("n2"))
	})

	It("of a StatefulSet gets a volume of its own, and comes back to it", func(ctx context.Context) {
		startProvisioner(ctx, anywhere)
		template := claimOf("data", class)
		template.Namespace = ""
		create(ctx, &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "db"},
			Spec: appsv1.StatefulSetSpec{
				Replicas: ptr.To[int32](4), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, Template: templateOf("db"),
				VolumeClaimTemplates: []corev1.PersistentVolumeClaim{*template}, PodManagementPolicy: appsv1.ParallelPodManagement,
			},
		})
		expectRunning(ctx, "db", 4)
		where := map[string]string{}
		for _, pod := range podsOf(ctx, "db") {
			where[pod.Name] = pod.Spec.NodeName
			claim := claimOf("data-"+pod.Name, class)
			Expect(read(ctx, claim)).To(Succeed())
			expectBoundTogether(ctx, claim, provisioned(claim, pod.Spec.NodeName))
			Expect(provisioned(claim, pod.Spec.NodeName).Spec.NodeAffinity).To(Equal(nodeAffinity(topologyKey, pod.Spec.NodeName)))
		}
		Expect(k8s.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(namespace))).To(Succeed())
		Eventually(func(g Gomega) {
			again := map[string]string{}
			for _, pod := range podsOf(ctx, "db") {
				g.Expect(pod.DeletionTimestamp).To(BeNil())
				g.Expect(pod.Status.Phase).To(Equal(corev1.PodRunning))
				again[pod.Name] = pod.Spec.NodeName
			}
			g.Expect(again).To(Equal(where))
		}).WithContext(ctx).Should(Succeed())
	})
})

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

	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

// capacityOf returns the object in which the CSI driver reports its capacity on a node.
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
	return K8s.Update(ctx, capacity)
}

var _ = Describe("A pod whose volume is provisioned dynamically", func() {
	var class *storagev1.StorageClass

	BeforeEach(func(ctx context.Context) {
		start(ctx)
		addNodes(ctx, NodeOf("n1", topologyKey, "n1"), NodeOf("n2", topologyKey, "n2"))
		class = classOf("csi", driver, storagev1.VolumeBindingWaitForFirstConsumer)
		CreateFor(ctx, class)
		DeferCleanup(clearProvisioned)
	})

	anywhere := func(context.Context, string) error { return nil }
	// tracked makes schedulers respect the capacity that the CSI driver reports.
	tracked := func(ctx context.Context) {
		CreateFor(ctx, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver},
			Spec: storagev1.CSIDriverSpec{StorageCapacity: ptr.To(true), AttachRequired: ptr.To(false)}})
	}
	noStorage := ofTwo + "2 node(s) did not have enough free storage." + noHelp

	It("runs on the node that livesched has selected for the provisioner, once the volume exists",
		func(ctx context.Context) {
			p := startProvisioner(ctx, anywhere)
			expectPodsRunning(ctx, createPod(ctx, "filler", CPU("3"), OnNode("n1")))
			claim := claimOf("claim", class)
			Create(ctx, claim)
			Expect(expectPodsRunning(ctx, createPod(ctx, "pod", UsingClaim("claim")))).To(Equal("n2"))
			Expect(read(ctx, claim)).To(Succeed())
			Expect(claim.Annotations).To(HaveKeyWithValue(volume.AnnSelectedNode, "n2"))
			expectBoundTogether(ctx, claim, provisioned(claim, "n2"))
			Expect(p.requestedNodes()).To(HaveEach("n2"))
		})

	It("runs only where its class allows volumes", func(ctx context.Context) {
		startProvisioner(ctx, anywhere)
		narrow := classOf("narrow", driver, storagev1.VolumeBindingWaitForFirstConsumer)
		narrow.AllowedTopologies = []corev1.TopologySelectorTerm{
			{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{
				{Key: topologyKey, Values: []string{"n3"}}}}}
		CreateFor(ctx, narrow)
		Create(ctx, claimOf("claim", narrow))
		pod := createPod(ctx, "pod", UsingClaim("claim"))
		ExpectUnschedulable(ctx, pod, ofTwo+noVolumes+noHelp)
		addNodes(ctx, NodeOf("n3", topologyKey, "n3"))
		Expect(expectPodsRunning(ctx, pod)).To(Equal("n3"))
	})

	It("runs on another node when provisioning fails on the selected node", func(ctx context.Context) {
		tracked(ctx)
		Create(ctx, capacityOf(class, "n1", "100Gi"), capacityOf(class, "n2", "100Gi"))
		p := startProvisioner(ctx, func(ctx context.Context, node string) error {
			if node == "n2" {
				return nil
			}
			if err := reportCapacity(ctx, node, "0"); err != nil {
				return err
			}
			return errFull
		})
		expectPodsRunning(ctx, createPod(ctx, "filler", CPU("3"), OnNode("n2"))) // a pod prefers n1
		claim := claimOf("claim", class)
		Create(ctx, claim)
		pod := createPod(ctx, "pod", UsingClaim("claim"))
		Expect(expectPodsRunning(ctx, pod)).To(Equal("n2"))
		expectBoundTogether(ctx, claim, provisioned(claim, "n2"))
		requested := p.requestedNodes()
		Expect(requested[0]).To(Equal("n1"))
		Expect(requested[1:]).To(HaveEach("n2"))
		Eventually(func() []string {
			var notes []string
			for _, event := range eventsOf(ctx, "FailedScheduling") {
				notes = append(notes, event.Note)
			}
			return notes
		}).WithContext(ctx).Should(ContainElement(`running PreBind plugin "VolumeBinding": binding volumes: ` +
			`provisioning failed for PVC "claim"`))
	})

	It("runs on a node for which the driver reports enough capacity, and waits while there is none",
		func(ctx context.Context) {
			tracked(ctx)
			startProvisioner(ctx, anywhere)
			Create(ctx, claimOf("claim", class))
			pod := createPod(ctx, "pod", UsingClaim("claim"))
			ExpectUnschedulable(ctx, pod, noStorage)
			By("reporting too little capacity, then enough")
			Create(ctx, capacityOf(class, "n1", "100Mi"), capacityOf(class, "n2", "100Mi"))
			ExpectPending(ctx, pod)
			Expect(reportCapacity(ctx, "n2", "2Gi")).To(Succeed())
			Expect(expectPodsRunning(ctx, pod)).To(Equal("n2"))
		})

	It("of a StatefulSet has its own volume, and is replaced on the node of that volume", func(ctx context.Context) {
		startProvisioner(ctx, anywhere)
		template := claimOf("data", class)
		template.Namespace = ""
		Create(ctx, &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "db"},
			Spec: appsv1.StatefulSetSpec{
				Replicas:             ptr.To[int32](4),
				Selector:             &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
				Template:             templateOf("db"),
				VolumeClaimTemplates: []corev1.PersistentVolumeClaim{*template},
				PodManagementPolicy:  appsv1.ParallelPodManagement,
			},
		})
		expectRunning(ctx, "db", 4)
		where := map[string]string{}
		for _, pod := range podsOf(ctx, "db") {
			where[pod.Name] = pod.Spec.NodeName
			claim := claimOf("data-"+pod.Name, class)
			Expect(read(ctx, claim)).To(Succeed())
			expectBoundTogether(ctx, claim, provisioned(claim, pod.Spec.NodeName))
			Expect(provisioned(claim, pod.Spec.NodeName).Spec.NodeAffinity).
				To(Equal(nodeAffinity(topologyKey, pod.Spec.NodeName)))
		}
		Expect(K8s.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(namespace))).To(Succeed())
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

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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/test/controlplane/binaries"
	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
)

// className returns a name for a storage class, or for another object without a namespace, that no
// other spec uses.
func className(name string) string { return namespace + "-" + name }

// classOf returns a storage class.
func classOf(name, provisioner string, mode storagev1.VolumeBindingMode) *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: className(name)}, Provisioner: provisioner, VolumeBindingMode: ptr.To(mode),
		ReclaimPolicy: ptr.To(corev1.PersistentVolumeReclaimRetain),
	}
}

// localClass returns a class whose claims wait for their first consumer and are then bound to
// existing volumes.
func localClass() *storagev1.StorageClass {
	return classOf("local", "kubernetes.io/no-provisioner", storagev1.VolumeBindingWaitForFirstConsumer)
}

// volumeOn returns a volume of a class that can be used only from one node.
func volumeOn(name string, class *storagev1.StorageClass, node string) *corev1.PersistentVolume {
	return VolumeOn(className(name), class.Name, node)
}

// csiVolume returns a volume of the CSI driver that can be used from every node.
func csiVolume(name string, class *storagev1.StorageClass) *corev1.PersistentVolume {
	volume := volumeOn(name, class, "")
	volume.Spec.NodeAffinity = nil
	volume.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{
		CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: volume.Name}}
	return volume
}

// createVolumes creates volumes and deletes them at the end of the spec.
func createVolumes(ctx context.Context, volumes ...*corev1.PersistentVolume) {
	GinkgoHelper()
	for _, volume := range volumes {
		Create(ctx, volume)
		DeferCleanup(deleteVolume, volume)
	}
}

// deleteVolume deletes a volume, even if a finalizer protects it because it is in use.
func deleteVolume(ctx context.Context, volume *corev1.PersistentVolume) {
	GinkgoHelper()
	Expect(client.IgnoreNotFound(K8s.Delete(ctx, volume))).To(Succeed())
	unprotected := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	Expect(client.IgnoreNotFound(K8s.Patch(ctx, volume, unprotected))).To(Succeed())
}

func nodeAffinity(key, value string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn,
			Values: []string{value}}},
	}}}}
}

// claimOf returns a claim of the spec's namespace.
func claimOf(name string, class *storagev1.StorageClass) *corev1.PersistentVolumeClaim {
	claim := ClaimOf(name, class.Name)
	claim.Namespace = namespace
	return claim
}

// expectBoundTogether waits until a claim and a volume report that they are bound to each other.
func expectBoundTogether(ctx context.Context, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(read(ctx, claim)).To(Succeed())
		g.Expect(read(ctx, volume)).To(Succeed())
		g.Expect(claim.Status.Phase).To(Equal(corev1.ClaimBound))
		g.Expect(volume.Status.Phase).To(Equal(corev1.VolumeBound))
		g.Expect(claim.Spec.VolumeName).To(Equal(volume.Name))
		g.Expect(volume.Spec.ClaimRef).To(HaveField("UID", claim.UID))
	}).WithContext(ctx).Should(Succeed())
}

// expectReserved waits until livesched has written the claim into a volume and nominated a node for
// the pod.
func expectReserved(ctx context.Context, volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim,
	pod *corev1.Pod, node string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(read(ctx, volume)).To(Succeed())
		g.Expect(volume.Spec.ClaimRef).To(HaveField("UID", claim.UID))
		g.Expect(read(ctx, pod)).To(Succeed())
		g.Expect(pod.Status.NominatedNodeName).To(Equal(node))
	}).WithContext(ctx).Should(Succeed())
}

// suspendControllers suspends kube-controller-manager until the returned function is called or the
// spec ends. Until then, no claim is bound, and a pod with a claim stays between Reserve and Bind.
// kube-controller-manager also makes volumes available: suspendControllers waits until it has done
// that for the given volumes.
func suspendControllers(ctx context.Context, volumes ...*corev1.PersistentVolume) (resume func()) {
	GinkgoHelper()
	for _, volume := range volumes {
		Eventually(func(g Gomega) {
			g.Expect(read(ctx, volume)).To(Succeed())
			g.Expect(volume.Status.Phase).To(Equal(corev1.VolumeAvailable))
		}).WithContext(ctx).Should(Succeed())
	}
	again, err := Cluster.Suspend(binaries.ControllerManager)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(again)
	return func() {
		GinkgoHelper()
		Expect(again()).To(Succeed())
	}
}

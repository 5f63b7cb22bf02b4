// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/test/controlplane/binaries"
)

var gibibyte = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}

// className makes the name of a storage class, or of another object without a namespace, unique to
// the spec.
func className(name string) string { return namespace + "-" + name }

// classOf makes a storage class.
func classOf(name, provisioner string, mode storagev1.VolumeBindingMode) *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: className(name)}, Provisioner: provisioner, VolumeBindingMode: ptr.To(mode),
		ReclaimPolicy: ptr.To(corev1.PersistentVolumeReclaimRetain),
	}
}

// localClass makes a class whose claims are bound to existing volumes, once they have a consumer.
func localClass() *storagev1.StorageClass {
	return classOf("local", "kubernetes.io/no-provisioner", storagev1.VolumeBindingWaitForFirstConsumer)
}

// volumeOn makes a volume that can be used from one node only.
func volumeOn(name string, class *storagev1.StorageClass, node string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: className(name)},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: gibibyte, StorageClassName: class.Name, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/data"}},
			NodeAffinity:                  nodeAffinity(corev1.LabelHostname, node),
		},
	}
}

func nodeAffinity(key, value string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}},
	}}}}
}

func claimSpec(class *storagev1.StorageClass) corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{
		StorageClassName: ptr.To(class.Name), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: gibibyte},
	}
}

func claimOf(name string, class *storagev1.StorageClass) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: claimSpec(class)}
}

func using(claim string) podChange {
	return func(t *corev1.PodTemplateSpec) {
		t.Spec.Volumes = append(t.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
}

// expectBoundTogether waits until claim and volume are bound to each other, according to both.
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

// expectPromised waits until livesched has written the claim into a volume, and has announced the
// pod's node.
func expectPromised(ctx context.Context, volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim, pod *corev1.Pod, node string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(read(ctx, volume)).To(Succeed())
		g.Expect(volume.Spec.ClaimRef).To(HaveField("UID", claim.UID))
		g.Expect(read(ctx, pod)).To(Succeed())
		g.Expect(pod.Status.NominatedNodeName).To(Equal(node))
	}).WithContext(ctx).Should(Succeed())
}

// suspendControllers suspends kube-controller-manager until the returned function is called or the
// spec ends. So a claim is not bound, and the pod stays between Reserve and Bind. First, it waits
// until the volumes are available, which is kube-controller-manager's work, too.
func suspendControllers(ctx context.Context, volumes ...*corev1.PersistentVolume) (resume func()) {
	GinkgoHelper()
	for _, volume := range volumes {
		Eventually(func(g Gomega) {
			g.Expect(read(ctx, volume)).To(Succeed())
			g.Expect(volume.Status.Phase).To(Equal(corev1.VolumeAvailable))
		}).WithContext(ctx).Should(Succeed())
	}
	again, err := cluster.Suspend(binaries.ControllerManager)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(again)
	return func() {
		GinkgoHelper()
		Expect(again()).To(Succeed())
	}
}

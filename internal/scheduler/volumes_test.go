// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var gibibyte = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}

// volumeOn is a volume that can be used from one node only.
func volumeOn(name, class, node string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: gibibyte, StorageClassName: class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/data"}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
			}}}},
		},
	}
}

func claimOf(name, class string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: ptr.To(class), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: gibibyte},
		},
	}
}

func using(claim string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
}

// bindVolume does what the volume controller does with a claim and a volume that belong together.
func bindVolume(ctx context.Context, volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) {
	GinkgoHelper()
	update(ctx, volume, func(volume *corev1.PersistentVolume) {
		volume.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	})
	volume.Status.Phase = corev1.VolumeBound
	Expect(k8s.Status().Update(ctx, volume)).To(Succeed())
	update(ctx, claim, func(claim *corev1.PersistentVolumeClaim) {
		claim.Spec.VolumeName = volume.Name
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, "pv.kubernetes.io/bind-completed", "yes")
	})
	claim.Status.Phase, claim.Status.Capacity, claim.Status.AccessModes = corev1.ClaimBound, gibibyte, claim.Spec.AccessModes
	Expect(k8s.Status().Update(ctx, claim)).To(Succeed())
}

// createVolumes creates volumes that are available, and what else belongs to them, until the end of
// the spec.
func createVolumes(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	create(ctx, objects...)
	DeferCleanup(func(ctx context.Context) {
		for _, object := range objects {
			Expect(client.IgnoreNotFound(k8s.Get(ctx, client.ObjectKeyFromObject(object), object))).To(Succeed())
			object.SetFinalizers(nil) // which protect volumes from being deleted while they are used
			Expect(client.IgnoreNotFound(k8s.Update(ctx, object))).To(Succeed())
			Expect(client.IgnoreNotFound(k8s.Delete(ctx, object))).To(Succeed())
		}
	})
	for _, object := range objects {
		if volume, ok := object.(*corev1.PersistentVolume); ok {
			volume.Status.Phase = corev1.VolumeAvailable
			Expect(k8s.Status().Update(ctx, volume)).To(Succeed())
		}
	}
}

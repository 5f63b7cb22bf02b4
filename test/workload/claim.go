// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// driver is the CSI driver of the volumes. It exists, because in-tree volumes are migrated to it.
const driver = "ebs.csi.aws.com"

// Claim returns the claim of the i-th pod, whose kind is one of [ClaimKinds], and the volume that
// it is bound to. The volume of a pod of kind [Claims] is in the zone of the i-th node.
func (p Pods) Claim(i int) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {
	name := p.Pod(i).Name
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: Namespace, Name: name, UID: types.UID("claim-" + name),
			Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes",
				"pv.kubernetes.io/bound-by-controller": "yes"},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, StorageClassName: ptr.To("zonal"), VolumeName: "volume-" + name,
			Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: claim.Spec.VolumeName, UID: types.UID(claim.Spec.VolumeName)},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: modes, StorageClassName: "zonal", Capacity: size,
			ClaimRef: &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: Namespace, Name: name,
				UID: claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: name},
			},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
	switch p.Kind {
	case Claims:
		volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{
			Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn,
						Values: []string{Node(i).Labels[corev1.LabelTopologyZone]}},
				},
			}}}}
	case InTree:
		volume.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{
			AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: name}}
	}
	return claim, volume
}

// CSINode returns the CSINode of the i-th node, which the pods of kinds [Limited] and [InTree]
// need: the node can mount 39 volumes of the driver, and mounts in-tree volumes by it.
func CSINode(i int) *storagev1.CSINode {
	return &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: NodeName(i),
			Annotations: map[string]string{corev1.MigratedPluginsAnnotationKey: "kubernetes.io/aws-ebs"}},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{
			Name: driver, NodeID: NodeName(i), Allocatable: &storagev1.VolumeNodeResources{Count: ptr.To(int32(39))},
		}}},
	}
}

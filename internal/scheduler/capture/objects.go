// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/livesched/livesched/internal/scheduler/podfields"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// Kinds returns the kinds of objects that decisions depend on, besides nodes, pods, profiles and
// policies.
func Kinds() []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	for _, group := range []struct {
		schema.GroupVersion
		kinds []string
	}{
		{corev1.SchemeGroupVersion,
			[]string{"Namespace", "Service", "ReplicationController", "PersistentVolume", "PersistentVolumeClaim"}},
		{appsv1.SchemeGroupVersion, []string{"ReplicaSet", "StatefulSet"}},
		{storagev1.SchemeGroupVersion,
			[]string{"StorageClass", "CSINode", "CSIDriver", "CSIStorageCapacity", "VolumeAttachment"}},
		{resourcev1.SchemeGroupVersion, []string{"ResourceClaim", "ResourceSlice", "DeviceClass"}},
	} {
		for _, kind := range group.kinds {
			kinds = append(kinds, group.WithKind(kind))
		}
	}
	kinds = append(kinds, podgroup.Kind)
	for i := range podgroup.KubernetesAPIs {
		kinds = append(kinds, podgroup.KubernetesAPIs[i].Kind())
	}
	return append(kinds, podgroup.CompositeKind)
}

// Annotations that the volume binder reads.
const (
	betaStorageClass = corev1.BetaStorageClassAnnotation
	selectedNode     = "volume.kubernetes.io/selected-node"
	bindCompleted    = "pv.kubernetes.io/bind-completed"
	boundByControl   = "pv.kubernetes.io/bound-by-controller"
	migratedPlugins  = "storage.alpha.kubernetes.io/migrated-plugins"
)

// recordOf returns the record of an object of one of the Kinds.
func recordOf(object any) (r Record, ok bool) {
	switch o := object.(type) {
	case *corev1.Namespace:
		r.Namespace = &corev1.Namespace{ObjectMeta: podfields.KeepMeta(&o.ObjectMeta)}
	case *corev1.Service:
		r.Service = &corev1.Service{ObjectMeta: podfields.KeepMeta(&o.ObjectMeta),
			Spec: corev1.ServiceSpec{Selector: o.Spec.Selector}}
	case *corev1.ReplicationController:
		r.ReplicationController = &corev1.ReplicationController{ObjectMeta: podfields.KeepMeta(&o.ObjectMeta),
			Spec: corev1.ReplicationControllerSpec{Selector: o.Spec.Selector}}
	case *appsv1.ReplicaSet:
		r.ReplicaSet = &appsv1.ReplicaSet{ObjectMeta: podfields.KeepMeta(&o.ObjectMeta),
			Spec: appsv1.ReplicaSetSpec{Selector: o.Spec.Selector}}
	case *appsv1.StatefulSet:
		r.StatefulSet = &appsv1.StatefulSet{ObjectMeta: podfields.KeepMeta(&o.ObjectMeta),
			Spec: appsv1.StatefulSetSpec{Selector: o.Spec.Selector}}
	case *corev1.PersistentVolume:
		r.PersistentVolume = trimVolumeObject(o)
	case *corev1.PersistentVolumeClaim:
		r.PersistentVolumeClaim = trimClaim(o)
	case *resourcev1.ResourceClaim:
		r.ResourceClaim = trimResourceClaim(o)
	case *resourcev1.ResourceSlice:
		r.ResourceSlice = &resourcev1.ResourceSlice{ObjectMeta: podfields.KeepMeta(&o.ObjectMeta), Spec: o.Spec}
	case *resourcev1.DeviceClass:
		r.DeviceClass = &resourcev1.DeviceClass{ObjectMeta: podfields.KeepMeta(&o.ObjectMeta), Spec: o.Spec}
		r.DeviceClass.Spec.Config = nil
	case *schedulingv1beta1.PodGroup:
		r.PodGroup = trimPodGroup(o)
	case *schedulingv1alpha3.CompositePodGroup:
		r.CompositePodGroup = trimComposite(o)
	case *unstructured.Unstructured:
		return recordOfGroup(o)
	default:
		return storageRecordOf(object)
	}
	return r, true
}

func storageRecordOf(object any) (r Record, ok bool) {
	switch o := object.(type) {
	case *storagev1.StorageClass:
		r.StorageClass = &storagev1.StorageClass{
			ObjectMeta: podfields.KeepMeta(&o.ObjectMeta), Provisioner: o.Provisioner,
			VolumeBindingMode: o.VolumeBindingMode, AllowedTopologies: o.AllowedTopologies,
		}
	case *storagev1.CSINode:
		r.CSINode = &storagev1.CSINode{ObjectMeta: podfields.KeepMeta(&o.ObjectMeta, migratedPlugins)}
		for _, driver := range o.Spec.Drivers {
			r.CSINode.Spec.Drivers = append(r.CSINode.Spec.Drivers, storagev1.CSINodeDriver{
				Name: driver.Name, TopologyKeys: driver.TopologyKeys, Allocatable: driver.Allocatable,
			})
		}
	case *storagev1.CSIDriver:
		r.CSIDriver = &storagev1.CSIDriver{ObjectMeta: podfields.KeepMeta(&o.ObjectMeta), Spec: o.Spec}
		r.CSIDriver.Spec.TokenRequests = nil
	case *storagev1.CSIStorageCapacity:
		r.CSIStorageCapacity = &storagev1.CSIStorageCapacity{
			ObjectMeta: podfields.KeepMeta(&o.ObjectMeta), NodeTopology: o.NodeTopology,
			StorageClassName: o.StorageClassName,
			Capacity:         o.Capacity, MaximumVolumeSize: o.MaximumVolumeSize,
		}
	case *storagev1.VolumeAttachment:
		r.VolumeAttachment = &storagev1.VolumeAttachment{ObjectMeta: podfields.KeepMeta(&o.ObjectMeta),
			Spec: storagev1.VolumeAttachmentSpec{
				Attacher: o.Spec.Attacher, NodeName: o.Spec.NodeName,
				Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: o.Spec.Source.PersistentVolumeName},
			}}
	default:
		return r, false
	}
	return r, true
}

func trimVolumeObject(in *corev1.PersistentVolume) *corev1.PersistentVolume {
	out := &corev1.PersistentVolume{ObjectMeta: podfields.KeepMeta(&in.ObjectMeta, betaStorageClass,
		boundByControl), Spec: corev1.PersistentVolumeSpec{
		Capacity: in.Spec.Capacity, AccessModes: in.Spec.AccessModes, StorageClassName: in.Spec.StorageClassName,
		NodeAffinity: in.Spec.NodeAffinity, VolumeMode: in.Spec.VolumeMode,
	}}
	if claim := in.Spec.ClaimRef; claim != nil {
		out.Spec.ClaimRef = &corev1.ObjectReference{Kind: claim.Kind, Namespace: claim.Namespace, Name: claim.Name,
			UID: claim.UID}
	}
	source, kept := &in.Spec.PersistentVolumeSource, &out.Spec.PersistentVolumeSource
	if csi := source.CSI; csi != nil {
		kept.CSI = &corev1.CSIPersistentVolumeSource{Driver: csi.Driver, VolumeHandle: csi.VolumeHandle}
	}
	kept.AWSElasticBlockStore, kept.GCEPersistentDisk, kept.AzureDisk = source.AWSElasticBlockStore,
		source.GCEPersistentDisk, source.AzureDisk
	out.Status.Phase = in.Status.Phase
	return out
}

func trimClaim(in *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	out := &corev1.PersistentVolumeClaim{ObjectMeta: podfields.KeepMeta(&in.ObjectMeta, betaStorageClass, selectedNode,
		bindCompleted, boundByControl)}
	out.Spec = corev1.PersistentVolumeClaimSpec{
		AccessModes: in.Spec.AccessModes, Selector: in.Spec.Selector, Resources: in.Spec.Resources,
		VolumeName:       in.Spec.VolumeName,
		StorageClassName: in.Spec.StorageClassName, VolumeMode: in.Spec.VolumeMode,
	}
	out.Status.Phase = in.Status.Phase
	return out
}

// trimResourceClaim leaves out what drivers read: their configuration, and the status of devices.
func trimResourceClaim(in *resourcev1.ResourceClaim) *resourcev1.ResourceClaim {
	out := &resourcev1.ResourceClaim{ObjectMeta: podfields.KeepMeta(&in.ObjectMeta), Spec: in.Spec}
	out.Spec.Devices.Config = nil
	out.Status.ReservedFor = in.Status.ReservedFor
	if in.Status.Allocation != nil {
		allocation := *in.Status.Allocation
		allocation.Devices.Config = nil
		out.Status.Allocation = &allocation
	}
	return out
}

// unlabelled is podfields.KeepMeta without labels and owners, which no decision reads of objects
// that select no pods.
func unlabelled(in *metav1.ObjectMeta, annotations ...string) metav1.ObjectMeta {
	out := podfields.KeepMeta(in, annotations...)
	out.Labels, out.OwnerReferences = nil, nil
	return out
}

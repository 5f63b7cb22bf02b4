// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

const (
	driver       = "csi.example.com"
	classNow     = "now"     // bound immediately, by the controller
	classLocal   = "local"   // bound to a local volume once the pod has a node
	classDynamic = "dynamic" // provisioned once the pod has a node
)

// storage makes the objects for volumes, apart from the claims of single pods.
func (g *generator) storage(nodes []*corev1.Node) []runtime.Object {
	mode := func(m storagev1.VolumeBindingMode) *storagev1.VolumeBindingMode { return &m }
	classes := []*storagev1.StorageClass{
		{ObjectMeta: metav1.ObjectMeta{Name: classNow}, Provisioner: driver,
			VolumeBindingMode: mode(storagev1.VolumeBindingImmediate)},
		{ObjectMeta: metav1.ObjectMeta{Name: classLocal}, Provisioner: volume.NotSupportedProvisioner,
			VolumeBindingMode: mode(storagev1.VolumeBindingWaitForFirstConsumer)},
		{ObjectMeta: metav1.ObjectMeta{Name: classDynamic}, Provisioner: driver,
			VolumeBindingMode: mode(storagev1.VolumeBindingWaitForFirstConsumer)},
	}
	if g.chance(40) {
		classes[2].AllowedTopologies = []corev1.TopologySelectorTerm{
			{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{
				{Key: zone, Values: []string{"zone-0", "zone-1"}},
			}}}
	}
	out := []runtime.Object{
		classes[0], classes[1], classes[2],
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: storagev1.CSIDriverSpec{
			StorageCapacity: ptr.To(g.chance(50)), AttachRequired: ptr.To(true),
			PreventPodSchedulingIfMissing: ptr.To(g.chance(50)),
		}},
	}
	// If a node could use several objects, its score would be that of any of them.
	if g.chance(50) {
		for i := range g.zones {
			out = append(out, g.capacity(map[string]string{zone: fmt.Sprintf("zone-%d", i)})...)
		}
	} else {
		for _, node := range nodes {
			labels := map[string]string{hostname: node.Name}
			if at, ok := node.Labels[zone]; ok && g.chance(20) {
				labels[zone] = at
			}
			out = append(out, g.capacity(labels)...)
		}
	}
	for _, node := range nodes {
		out = append(out, g.nodeStorage(node)...)
	}
	return out
}

// capacity makes an object that reports the capacity of the nodes with these labels, if any.
func (g *generator) capacity(labels map[string]string) []runtime.Object {
	if !g.chance(70) {
		return nil
	}
	made := &storagev1.CSIStorageCapacity{
		ObjectMeta:       metav1.ObjectMeta{Namespace: namespaces[0], Name: g.name("capacity")},
		StorageClassName: classDynamic, NodeTopology: &metav1.LabelSelector{MatchLabels: labels},
		Capacity: resource.NewQuantity(int64(g.IntN(12))<<30, resource.BinarySI),
	}
	if g.chance(30) {
		made.MaximumVolumeSize = resource.NewQuantity(int64(g.IntN(8))<<30, resource.BinarySI)
	}
	return []runtime.Object{made}
}

// nodeStorage makes the storage objects of a node: its limits and its local volumes.
func (g *generator) nodeStorage(node *corev1.Node) []runtime.Object {
	var out []runtime.Object
	if g.chance(80) {
		csi := storagev1.CSINodeDriver{Name: driver, NodeID: node.Name, TopologyKeys: []string{zone}}
		if g.chance(70) {
			csi.Allocatable = &storagev1.VolumeNodeResources{Count: ptr.To(int32(g.IntN(4)))}
		}
		out = append(out, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node.Name},
			Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{csi}}})
	}
	if g.chance(40) {
		pv := g.volume(classLocal)
		pv.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/disk"}}
		pv.Spec.NodeAffinity = onNodes(hostname, node.Name)
		out = append(out, pv)
	}
	if g.chance(15) {
		out = append(out, &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: g.name("attachment")},
			Spec: storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: node.Name,
				Source: storagev1.VolumeAttachmentSource{
					PersistentVolumeName: ptr.To(fmt.Sprintf("volume-%d", g.IntN(50))),
				}},
		})
	}
	return out
}

func (g *generator) volume(class string) *corev1.PersistentVolume {
	name := g.name("volume")
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: "1"},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity: corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(int64(1+g.IntN(8))<<30,
				resource.BinarySI)},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: name},
			},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
	}
}

func onNodes(key string, values ...string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn,
			Values: values}},
	}}}}
}

// claims gives the pod volumes and returns the objects behind them. shared are claims of earlier
// pods.
func (g *generator) claims(pod *corev1.Pod, shared []*corev1.PersistentVolumeClaim) (out []runtime.Object) {
	if !g.volumes || !g.chance(35) {
		return nil
	}
	for range 1 + g.IntN(2) {
		if g.chance(20) {
			g.inline(pod)
			continue
		}
		claim, objects := g.claim(pod)
		if g.chance(25) && len(shared) > 0 {
			claim, objects = pick(g, shared), nil
		}
		if claim.Namespace == pod.Namespace || g.chance(20) { // otherwise, there is no such claim
			out = append(out, objects...)
			g.mount(pod, corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}})
		}
	}
	return out
}

func (g *generator) mount(pod *corev1.Pod, source corev1.VolumeSource) {
	pod.Spec.Volumes = append(pod.Spec.Volumes,
		corev1.Volume{Name: fmt.Sprintf("v%d", len(pod.Spec.Volumes)), VolumeSource: source})
}

// inline gives the pod a disk that other pods use, too.
func (g *generator) inline(pod *corev1.Pod) {
	disk := fmt.Sprintf("disk-%d", g.IntN(3))
	switch g.IntN(3) {
	case 0:
		g.mount(pod, corev1.VolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: disk,
			ReadOnly: g.chance(40)}})
	case 1:
		g.mount(pod, corev1.VolumeSource{
			AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: disk}})
	default:
		g.mount(pod, corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{IQN: disk, ReadOnly: g.chance(40)}})
	}
}

func (g *generator) claim(pod *corev1.Pod) (*corev1.PersistentVolumeClaim, []runtime.Object) {
	name := g.name("claim")
	class := oneOf(g, classNow, classLocal, classDynamic)
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: name, UID: types.UID(name), ResourceVersion: "1"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: ptr.To(class), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceStorage: *resource.NewQuantity(int64(1+g.IntN(4))<<30, resource.BinarySI),
			}},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}
	if g.chance(30) {
		claim.Spec.AccessModes[0] = corev1.ReadWriteOncePod
	}
	if class != classNow && g.chance(60) || g.rarely(20) {
		return claim, []runtime.Object{claim}
	}
	pv := g.bind(claim)
	if g.rarely(10) {
		return claim, []runtime.Object{claim} // the volume is gone
	}
	return claim, []runtime.Object{claim, pv}
}

// bind makes a volume that is bound to the claim.
func (g *generator) bind(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	pv := g.volume(*claim.Spec.StorageClassName)
	claim.Spec.VolumeName = pv.Name
	claim.Annotations = map[string]string{volume.AnnBindCompleted: "yes"}
	claim.Status.Phase = corev1.ClaimBound
	pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	pv.Status.Phase = corev1.VolumeBound
	where := []string{fmt.Sprintf("zone-%d", g.IntN(g.zones)), "zone-0"}
	switch g.IntN(3) {
	case 0:
		pv.Spec.NodeAffinity = onNodes(zone, where...)
	case 1:
		pv.Labels = map[string]string{zone: where[0] + "__" + where[1]}
	}
	return pv
}

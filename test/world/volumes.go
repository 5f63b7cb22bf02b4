// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/test/objects"
)

// The classes of volumes: disks that administrators make, volumes that a driver makes where the pod
// goes, and those that it makes at once.
const (
	classDisk = "disk"
	classLate = "late"
	classNow  = "now"

	volumeDriver  = "volumes.example.com"
	noProvisioner = "kubernetes.io/no-provisioner"
	zoneLabel     = "zone"
)

// maxDisks is how many disks there are at most, and maxStoringPods with how many pods the actor
// makes no more of them.
const (
	maxDisks       = 8
	maxStoringPods = 40
)

// changeVolumes makes or deletes disks, claims, or pods that use these.
func (w *World) changeVolumes(r *rand.Rand) {
	if w.counts["actor: volumes"] == 1 {
		w.controlVolumes()
	}
	switch kind := r.IntN(13); kind {
	case 0, 1, 2:
		for range 1 + r.IntN(3) {
			w.addDisk(r)
		}
	case 3:
		if volumes := sorted(w.cluster.volumes); len(volumes) > 0 {
			volume := one(r, volumes)
			w.log.add("delete volume %s", volume.Name)
			w.must(w.cluster.objects.Delete(w.ctx, volume))
		}
	case 4, 5:
		if claims := sorted(w.cluster.volumeClaims); len(claims) > 0 {
			for range 1 + r.IntN(len(claims)) {
				claim := one(r, claims)
				w.log.add("delete volume claim %s", claim.Name)
				w.must(w.cluster.objects.Delete(w.ctx, claim))
			}
		}
	case 6:
		w.limitVolumes(r)
	case 7:
		for _, pod := range sorted(w.cluster.pods) {
			if len(pod.Spec.Volumes) > 0 && r.IntN(2) == 0 {
				w.deletePod(pod)
			}
		}
	case 8, 9:
		w.shareVolume(r)
	case 12:
		w.changeCapacity(r)
	default:
		w.addStoringPods(r)
	}
}

// addDisk makes a disk of a node, or one that the nodes of a zone reach. A disk may come again
// under the name of another one.
func (w *World) addDisk(r *rand.Rand) {
	disk := objects.VolumeOn(fmt.Sprint("disk-", r.IntN(maxDisks)), classDisk, fmt.Sprint("node-", r.IntN(10)))
	if nodes := sorted(w.cluster.nodes); len(nodes) > 0 && r.IntN(4) > 0 {
		onlyWhere(disk, corev1.LabelHostname, one(r, nodes).Name)
	}
	if r.IntN(3) == 0 {
		onlyWhere(disk, zoneLabel, one(r, zones))
	}
	disk.Finalizers = []string{volumeFinalizer}
	disk.Spec.Capacity = storage(one(r, []string{"1Gi", "5Gi", "10Gi"}))
	disk.Spec.PersistentVolumeReclaimPolicy = one(r,
		[]corev1.PersistentVolumeReclaimPolicy{corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain})
	if r.IntN(3) == 0 {
		disk.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	}
	if err := w.cluster.objects.Create(w.ctx, disk); !apierrors.IsAlreadyExists(err) {
		w.log.add("create %s", disk.Name)
		w.must(err)
	}
}

// onlyWhere lets a volume be used only from nodes with a label.
func onlyWhere(volume *corev1.PersistentVolume, key, value string) {
	volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}}}}}}
}

func storage(quantity string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(quantity)}
}

// newVolumeClaim returns a claim that nothing uses yet.
func newVolumeClaim(r *rand.Rand, name string) *corev1.PersistentVolumeClaim {
	claim := objects.ClaimOf(name, one(r, []string{classDisk, classDisk, classLate, classLate, classNow}))
	claim.Finalizers = []string{volumeClaimFinalizer}
	claim.Spec.Resources.Requests = storage(one(r, []string{"1Gi", "5Gi"}))
	if r.IntN(4) == 0 {
		claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	}
	return claim
}

func (w *World) createVolumeClaim(claim *corev1.PersistentVolumeClaim) {
	w.log.add("create volume claim %s of %s", claim.Name, *claim.Spec.StorageClassName)
	if err := w.cluster.objects.Create(w.ctx, claim); !apierrors.IsAlreadyExists(err) {
		w.must(err)
	}
}

// addStoringPods makes pods that are alike, each with claims of its own, as StatefulSets do. The
// claims may come after their pods. Some end with their pods.
func (w *World) addStoringPods(r *rand.Rand) {
	template := w.newPod(r)
	for range 1 + r.IntN(4) {
		pod := template.DeepCopy()
		w.counts["storing pods"]++
		pod.Name = fmt.Sprintf("storing-%d", w.counts["storing pods"])
		for i := range 1 + r.IntN(2) {
			claim := newVolumeClaim(r, fmt.Sprintf("%s-%d", pod.Name, i))
			switch r.IntN(4) {
			case 0:
				w.after(w.kubeletDelay(), func() { w.createVolumeClaim(claim) })
				useVolume(pod, claim.Name)
			case 1:
				useOwnVolume(pod, fmt.Sprint(i), claim)
			default:
				w.createVolumeClaim(claim)
				useVolume(pod, claim.Name)
			}
		}
		w.createStoringPod(pod)
	}
}

// shareVolume creates a claim, unless it exists, and pods that use it.
func (w *World) shareVolume(r *rand.Rand) {
	claim := newVolumeClaim(r, fmt.Sprint("common-", r.IntN(3)))
	if r.IntN(5) > 0 {
		w.createVolumeClaim(claim)
	}
	for range 1 + r.IntN(3) {
		w.counts["storing pods"]++
		pod := w.newPod(r)
		pod.Name = fmt.Sprintf("storing-%d", w.counts["storing pods"])
		useVolume(pod, claim.Name)
		w.createStoringPod(pod)
	}
}

func (w *World) createStoringPod(pod *corev1.Pod) {
	if len(w.cluster.pods) > maxStoringPods {
		return
	}
	w.log.add("create pod %s", pod.Name)
	w.must(w.cluster.objects.Create(w.ctx, pod))
}

// useVolume makes a pod use a claim.
func useVolume(pod *corev1.Pod, claim string) {
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("data-", len(pod.Spec.Volumes)),
		VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}})
}

// useOwnVolume makes a pod use a claim that a controller makes for it.
func useOwnVolume(pod *corev1.Pod, name string, claim *corev1.PersistentVolumeClaim) {
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		Ephemeral: &corev1.EphemeralVolumeSource{
			VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: claim.Spec}}}})
}

// limitVolumes makes the driver say how many of its volumes nodes can have, as kubelets do.
func (w *World) limitVolumes(r *rand.Rand) {
	for _, node := range sorted(w.cluster.nodes) {
		if r.IntN(2) == 0 {
			continue
		}
		limit := ptr.To(int32(1 + r.IntN(4)))
		w.log.add("%s can have %d volumes", node.Name, *limit)
		csiNode := w.cluster.csiNodes[csiNodePrefix+node.Name].DeepCopy()
		if csiNode != nil {
			csiNode.Spec.Drivers[0].Allocatable.Count = limit
			w.must(w.cluster.objects.Update(w.ctx, csiNode))
			continue
		}
		csiNode = &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
		csiNode.Spec.Drivers = []storagev1.CSINodeDriver{{Name: volumeDriver, NodeID: node.Name,
			Allocatable: &storagev1.VolumeNodeResources{Count: limit}}}
		w.must(w.cluster.objects.Create(w.ctx, csiNode))
	}
}

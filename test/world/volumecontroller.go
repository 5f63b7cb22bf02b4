// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/kubernetes/pkg/volume/util"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	volumeFinalizer      = util.PVProtectionFinalizer
	volumeClaimFinalizer = util.PVCProtectionFinalizer
)

// resync is how often the controllers of volumes look at all of them.
const resync = 15 * time.Second

// controlVolumes starts the controllers of volumes.
func (w *World) controlVolumes() {
	w.makeClasses()
	w.reportCapacities()
	for _, claim := range sorted(w.cluster.volumeClaims) {
		w.syncVolumeClaim(claim.DeepCopy())
	}
	for _, volume := range sorted(w.cluster.volumes) {
		w.syncVolume(volume.DeepCopy())
	}
	for _, csiNode := range sorted(w.cluster.csiNodes) {
		if w.cluster.nodes["/registry/minions/"+csiNode.Name] == nil {
			w.must(w.cluster.objects.Delete(w.ctx, csiNode))
		}
	}
	w.after(resync, w.controlVolumes)
}

// makeClasses creates the classes, also after a restore of etcd.
func (w *World) makeClasses() {
	for _, class := range []storagev1.StorageClass{
		{ObjectMeta: metav1.ObjectMeta{Name: classDisk}, Provisioner: noProvisioner,
			VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)},
		{ObjectMeta: metav1.ObjectMeta{Name: classLate}, Provisioner: volumeDriver,
			VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)},
		{ObjectMeta: metav1.ObjectMeta{Name: classNow}, Provisioner: volumeDriver,
			VolumeBindingMode: ptr.To(storagev1.VolumeBindingImmediate)},
	} {
		if w.cluster.storageClasses["/registry/storageclasses/"+class.Name] == nil {
			w.must(w.cluster.objects.Create(w.ctx, &class))
		}
	}
}

// syncVolumeClaimLater and syncVolumeLater let the controllers look at what has changed.
func (w *World) syncVolumeClaimLater(claim *corev1.PersistentVolumeClaim) {
	key := client.ObjectKeyFromObject(claim)
	w.after(w.kubeletDelay(), func() {
		if now := w.volumeClaim(key.Namespace, key.Name); now != nil {
			w.syncVolumeClaim(now.DeepCopy())
		}
	})
}

func (w *World) syncVolumeLater(name string) {
	w.after(w.kubeletDelay(), func() {
		if now := w.volume(name); now != nil {
			w.syncVolume(now.DeepCopy())
		}
	})
}

// podUsesVolumes lets the controllers see a change of a pod.
func (w *World) podUsesVolumes(before, after *corev1.Pod) {
	switch {
	case after == nil:
		for _, name := range volumeClaimNames(before) {
			if claim := w.volumeClaim(before.Namespace, name); claim != nil {
				w.syncVolumeClaimLater(claim)
			}
		}
	case before == nil:
		for _, volume := range after.Spec.Volumes {
			if volume.Ephemeral != nil {
				w.after(w.kubeletDelay(), func() { w.makeVolumeClaim(after, &volume) })
			}
		}
	}
}

// makeVolumeClaim makes the claim of a pod from its template.
func (w *World) makeVolumeClaim(pod *corev1.Pod, volume *corev1.Volume) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace,
		Name: pod.Name + "-" + volume.Name, Finalizers: []string{volumeClaimFinalizer},
		OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))}},
		Spec: *volume.Ephemeral.VolumeClaimTemplate.Spec.DeepCopy()}
	w.createVolumeClaim(claim)
}

// syncVolumeClaim does the next thing that the controllers have to do for a claim: one write, which
// makes them look again.
func (w *World) syncVolumeClaim(claim *corev1.PersistentVolumeClaim) {
	owner := metav1.GetControllerOf(claim)
	volume := w.volume(claim.Spec.VolumeName)
	switch {
	case claim.DeletionTimestamp != nil && len(claim.Finalizers) > 0 && !w.volumeClaimUsed(claim):
		claim.Finalizers = nil
		w.must(w.cluster.objects.Update(w.ctx, claim))
	case claim.DeletionTimestamp == nil && owner != nil && !w.podExists(owner.UID):
		w.must(w.cluster.objects.Delete(w.ctx, claim))
	case claim.Spec.VolumeName == "":
		w.bindVolumeClaim(claim)
	case volume == nil || volume.Spec.ClaimRef == nil || volume.Spec.ClaimRef.UID != claim.UID:
		w.setClaimPhase(claim, corev1.ClaimLost)
	default:
		claim.Status.AccessModes, claim.Status.Capacity = volume.Spec.AccessModes, volume.Spec.Capacity
		w.setClaimPhase(claim, corev1.ClaimBound)
	}
}

func (w *World) setClaimPhase(claim *corev1.PersistentVolumeClaim, phase corev1.PersistentVolumeClaimPhase) {
	if claim.Status.Phase != phase {
		w.counts["volume claims: "+string(phase)]++
		claim.Status.Phase = phase
		w.must(w.cluster.objects.Status().Update(w.ctx, claim))
	}
}

func (w *World) podExists(uid types.UID) bool {
	for _, pod := range w.cluster.pods {
		if pod.UID == uid {
			return true
		}
	}
	return false
}

// volumeClaimUsed reports whether a pod with a node uses a claim.
func (w *World) volumeClaimUsed(claim *corev1.PersistentVolumeClaim) bool {
	for _, pod := range w.cluster.pods {
		if pod.Namespace == claim.Namespace && pod.Spec.NodeName != "" &&
			slices.Contains(volumeClaimNames(pod), claim.Name) {
			return true
		}
	}
	return false
}

// bindVolumeClaim binds a claim to the volume that is meant for it, or makes one.
func (w *World) bindVolumeClaim(claim *corev1.PersistentVolumeClaim) {
	for _, volume := range sorted(w.cluster.volumes) {
		if ref := volume.Spec.ClaimRef; ref == nil || ref.UID != claim.UID || volume.DeletionTimestamp != nil {
			continue
		}
		claim.Spec.VolumeName = volume.Name
		if claim.Annotations == nil {
			claim.Annotations = map[string]string{}
		}
		claim.Annotations[storagehelpers.AnnBindCompleted] = "yes"
		claim.Annotations[storagehelpers.AnnBoundByController] = "yes"
		w.must(w.cluster.objects.Update(w.ctx, claim))
		return
	}
	selected := claim.Annotations[storagehelpers.AnnSelectedNode]
	class := *claim.Spec.StorageClassName
	if claim.DeletionTimestamp == nil && (class == classNow || class == classLate && selected != "") {
		w.provision(claim, selected)
	}
}

// provision makes a volume for a claim, on a node if one was selected. If that fails, a scheduler
// must select a node again.
func (w *World) provision(claim *corev1.PersistentVolumeClaim, selected string) {
	node := w.cluster.nodes["/registry/minions/"+selected]
	switch failed := w.kubelets.IntN(5) == 0; {
	case selected == "" && failed:
		return // and tries again
	case failed || selected != "" && node == nil:
		w.counts["volumes not provisioned"]++
		w.log.add("no volume for %s on %s", claim.Name, selected)
		delete(claim.Annotations, storagehelpers.AnnSelectedNode)
		w.must(w.cluster.objects.Update(w.ctx, claim))
		return
	}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("pvc-", claim.UID),
		Finalizers:  []string{volumeFinalizer},
		Annotations: map[string]string{storagehelpers.AnnDynamicallyProvisioned: volumeDriver}}}
	volume.Spec = corev1.PersistentVolumeSpec{Capacity: maps.Clone(claim.Spec.Resources.Requests),
		StorageClassName: *claim.Spec.StorageClassName, AccessModes: claim.Spec.AccessModes,
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		ClaimRef: &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1",
			Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
			Driver: volumeDriver, VolumeHandle: string(claim.UID)}}}
	switch {
	case node == nil:
		onlyWhere(volume, zoneLabel, one(w.kubelets, zones))
	case w.kubelets.IntN(2) == 0:
		onlyWhere(volume, zoneLabel, node.Labels[zoneLabel])
	default:
		onlyWhere(volume, corev1.LabelHostname, node.Name)
	}
	w.log.add("provision %s for %s on %q", volume.Name, claim.Name, selected)
	if err := w.cluster.objects.Create(w.ctx, volume); !apierrors.IsAlreadyExists(err) {
		w.must(err)
	}
}

// syncVolume does the next thing that the controllers have to do for a volume, as syncVolumeClaim
// does for a claim.
func (w *World) syncVolume(volume *corev1.PersistentVolume) {
	ref := volume.Spec.ClaimRef
	var claim *corev1.PersistentVolumeClaim
	if ref != nil {
		claim = w.volumeClaim(ref.Namespace, ref.Name)
	}
	bound := claim != nil && claim.UID == ref.UID && claim.Spec.VolumeName == volume.Name
	switch {
	case volume.DeletionTimestamp != nil && !bound:
		volume.Finalizers = nil
		w.must(w.cluster.objects.Update(w.ctx, volume))
	case ref == nil:
		w.setVolumePhase(volume, corev1.VolumeAvailable)
	case claim == nil || claim.UID != ref.UID || claim.Spec.VolumeName != "" && claim.Spec.VolumeName != volume.Name:
		if !w.setVolumePhase(volume, corev1.VolumeReleased) {
			w.reclaim(volume)
		}
	case claim.Spec.VolumeName == "":
		w.syncVolumeClaim(claim.DeepCopy())
	default:
		w.setVolumePhase(volume, corev1.VolumeBound)
	}
}

// setVolumePhase reports whether a volume had another phase.
func (w *World) setVolumePhase(volume *corev1.PersistentVolume, phase corev1.PersistentVolumePhase) bool {
	if volume.Status.Phase == phase {
		return false
	}
	w.counts["volumes: "+string(phase)]++
	volume.Status.Phase = phase
	w.must(w.cluster.objects.Status().Update(w.ctx, volume))
	return true
}

// reclaim deletes a volume that nobody claims any more, or makes it free.
func (w *World) reclaim(volume *corev1.PersistentVolume) {
	if volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
		w.must(w.cluster.objects.Delete(w.ctx, volume))
		return
	}
	volume.Spec.ClaimRef = nil
	delete(volume.Annotations, storagehelpers.AnnBoundByController)
	w.must(w.cluster.objects.Update(w.ctx, volume))
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

const (
	volumePrefix      = "/registry/persistentvolumes/"
	volumeClaimPrefix = "/registry/persistentvolumeclaims/"
	csiNodePrefix     = "/registry/csinodes/"
)

func (w *World) volume(name string) *corev1.PersistentVolume {
	return w.cluster.volumes[volumePrefix+name]
}

func (w *World) volumeClaim(namespace, name string) *corev1.PersistentVolumeClaim {
	return w.cluster.volumeClaims[volumeClaimPrefix+namespace+"/"+name]
}

// volumeClaimNames returns the names of the claims for volumes of a pod.
func volumeClaimNames(pod *corev1.Pod) (names []string) {
	for _, volume := range pod.Spec.Volumes {
		switch {
		case volume.PersistentVolumeClaim != nil:
			names = append(names, volume.PersistentVolumeClaim.ClaimName)
		case volume.Ephemeral != nil:
			names = append(names, pod.Name+"-"+volume.Name)
		}
	}
	return names
}

// volumeClaimChanged checks that no volume has two claims, and lets the controllers see the change.
// A restore of etcd puts back one object after the other, so that it is not checked then.
func (w *World) volumeClaimChanged(before, after *corev1.PersistentVolumeClaim) {
	if before != nil && (after == nil || after.DeletionTimestamp != nil && before.DeletionTimestamp == nil) {
		w.cluster.doomed[before.Namespace+"/"+before.Name] = time.Now()
	}
	if after == nil {
		if before.Spec.VolumeName != "" {
			w.syncVolumeLater(before.Spec.VolumeName)
		}
		return
	}
	if after.Spec.VolumeName != "" && (before == nil || before.Spec.VolumeName == "") {
		w.log.add("volume claim %s has %s", after.Name, after.Spec.VolumeName)
		for _, other := range sorted(w.cluster.volumeClaims) {
			if w.restored != time.Now() && other.UID != after.UID && other.Spec.VolumeName == after.Spec.VolumeName &&
				other.Status.Phase != corev1.ClaimLost {
				w.fail("volume %s is bound to claim %s, and %s has it", other.Spec.VolumeName, after.Name, other.Name)
			}
		}
	}
	w.syncVolumeClaimLater(after)
}

// volumeChanged checks that nobody takes a volume from a claim that is bound to it, and lets the
// controllers see the change. It is not checked while etcd is restored, as in volumeClaimChanged.
func (w *World) volumeChanged(before, after *corev1.PersistentVolume) {
	if before != nil && before.Spec.ClaimRef != nil {
		ref := before.Spec.ClaimRef
		claim := w.volumeClaim(ref.Namespace, ref.Name)
		bound := claim != nil && claim.UID == ref.UID && claim.Spec.VolumeName == before.Name
		taken := after == nil || after.Spec.ClaimRef == nil || after.Spec.ClaimRef.UID != ref.UID
		if bound && taken && w.restored != time.Now() {
			w.fail("volume %s was taken from claim %s", before.Name, claim.Name)
		}
		if claim != nil {
			w.syncVolumeClaimLater(claim)
		}
	}
	if after != nil {
		w.syncVolumeLater(after.Name)
	}
}

// checkVolumes checks that the claims of a pod that was bound have volumes that its node reaches,
// and that nobody else uses those claims that only one pod may use.
func (w *World) checkVolumes(bound *corev1.Pod) {
	node := w.nodeOf(bound)
	if time.Now().Before(w.excused) || node == nil || w.wasBoundLate(bound) {
		return
	}
	for _, name := range volumeClaimNames(bound) {
		// livesched may not have known that the claim is being deleted, and nothing protects a
		// claim before its pod has a node.
		if at, ok := w.cluster.doomed[bound.Namespace+"/"+name]; ok && time.Since(at) < lateness {
			w.counts["bound with a claim that was deleted"]++
			continue
		}
		w.counts["bound with a volume"]++
		claim := w.volumeClaim(bound.Namespace, name)
		if claim == nil || claim.Spec.VolumeName == "" || claim.Annotations[storagehelpers.AnnBindCompleted] == "" {
			w.fail("pod %s was bound, and its claim %s has no volume", bound.Name, name)
			return
		}
		w.checkReach(bound, node, claim)
		w.checkSoleUser(bound, claim)
	}
}

// checkReach checks that a node reaches the volume of a claim.
func (w *World) checkReach(bound *corev1.Pod, node *corev1.Node, claim *corev1.PersistentVolumeClaim) {
	volume := w.volume(claim.Spec.VolumeName)
	if volume == nil {
		w.fail("pod %s was bound, and the volume %s of its claim does not exist", bound.Name, claim.Spec.VolumeName)
		return
	}
	if err := storagehelpers.CheckNodeAffinity(volume, node.Labels); err == nil {
		return
	}
	if at, ok := w.cluster.moved[node.Name]; ok && time.Since(at) < lateness {
		w.counts["bound to a node that moved"]++ // livesched may not have known
		return
	}
	w.fail("pod %s was bound to %s, which does not reach volume %s of its claim %s", bound.Name, node.Name, volume.Name,
		claim.Name)
}

// checkSoleUser checks that no other pod with a node uses a claim that only one pod may use.
func (w *World) checkSoleUser(bound *corev1.Pod, claim *corev1.PersistentVolumeClaim) {
	if !slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod) {
		return
	}
	w.counts["bound with a claim for one pod"]++
	for _, pod := range sorted(w.cluster.pods) {
		if pod.UID != bound.UID && pod.Namespace == bound.Namespace && pod.Spec.NodeName != "" &&
			!podutil.IsPodTerminal(pod) && !w.wasBoundLate(pod) && slices.Contains(volumeClaimNames(pod), claim.Name) {
			w.fail("pod %s was bound, and pod %s uses claim %s, which is for one pod", bound.Name, pod.Name, claim.Name)
		}
	}
}

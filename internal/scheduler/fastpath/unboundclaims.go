// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/volume"
)

// staticClaim is a claim that may be bound to a free volume on some nodes. Only the plugin can tell
// which volume it takes there, if any. It takes none on the other nodes.
type staticClaim struct {
	class string
	// affinities are the conditions of volumes. labels are the keys of the labels of placed
	// volumes, if these are too many to be among affinities.
	affinities []volumeAffinity
	labels     []string
	// needed means that no volume can be created.
	needed bool
}

// maxStatic bounds the free volumes of a claim that are looked at one by one.
const maxStatic = 16

// addUnbound adds a claim whose volume will be provisioned once the pod has a node. No other pod
// uses the claim, so nothing has been reserved for it yet.
func (c *claims) addUnbound(claim *corev1.PersistentVolumeClaim) bool {
	if c.snapshot.IsPVCUsedByPods(claim.Namespace + "/" + claim.Name) {
		return false
	}
	class := get[storagev1.StorageClass](c.stores.classes, volume.GetPersistentVolumeClaimClass(claim))
	if class == nil {
		return false
	}
	node, selected := claim.Annotations[volume.AnnSelectedNode]
	if class.Provisioner == "" || class.Provisioner == volume.NotSupportedProvisioner {
		return !selected && c.addStatic(claim, class, true)
	}
	if reportsCapacity(get[storagev1.CSIDriver](c.stores.csiDrivers, class.Provisioner)) &&
		!c.addReporting(claim, class.Name) {
		return false
	}
	if selected {
		c.nodes = append(c.nodes, node)
	} else if !c.addStatic(claim, class, false) {
		return false
	}
	c.addDriver(class.Provisioner)
	if len(class.AllowedTopologies) == 0 {
		return true
	}
	topologies, ok := affinityOfTopologies(class.AllowedTopologies)
	c.require(topologies)
	return ok
}

// addReporting adds a claim whose driver reports its capacity. A claim without a size needs none.
func (c *claims) addReporting(claim *corev1.PersistentVolumeClaim, class string) bool {
	size, ok := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if !ok {
		return true
	}
	if claim.Spec.StorageClassName == nil {
		return false // the plugin fails to score it
	}
	at := slices.IndexFunc(c.demands, func(d classDemand) bool { return d.class == class })
	if at < 0 {
		at = len(c.demands)
		c.demands = append(c.demands, classDemand{class: class})
	}
	c.demands[at].requested += size.Value()
	c.reporting = append(c.reporting, capacityClaim{class: class, size: size.Value(), of: at})
	return true
}

// addStatic adds a claim that may be bound to volumes that exist, or must be if it is needed. It
// returns false if many volumes are for more than one place, or if every node can mount one.
func (c *claims) addStatic(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, needed bool) bool {
	if claim.Spec.VolumeAttributesClassName != nil {
		return false
	}
	if _, err := metav1.LabelSelectorAsSelector(claim.Spec.Selector); err != nil {
		return false // so does the plugin
	}
	s := staticClaim{class: class.Name, needed: needed}
	list := VolumesFor
	if c.stores.placed(class.Name) > maxStatic {
		s.labels = labelsOfPlaced(c.stores.volumes, class.Name)
		list = func(volumes toolscache.Indexer, class string, claims ...types.UID) ([]any, error) {
			return VolumesOn(volumes, class, nil, claims...)
		}
	}
	others, err := list(c.stores.volumes, class.Name, claim.UID)
	if err != nil {
		return false
	}
	for _, object := range others {
		other, ok := object.(*corev1.PersistentVolume)
		if !ok {
			return false
		}
		if other.Spec.ClaimRef != nil && !volume.IsVolumeBoundToClaim(other, claim) {
			continue
		}
		affinity, ok := affinityOf(other)
		if !ok || affinity == nil || len(s.affinities) == maxStatic {
			return false
		}
		s.affinities = append(s.affinities, *affinity)
	}
	if needed || len(s.affinities) > 0 || len(s.labels) > 0 {
		c.static = append(c.static, s)
	}
	return true
}

// placed returns the number of placed volumes of a class.
func (s *volumeStores) placed(class string) (n int) {
	for _, key := range labelsOfPlaced(s.volumes, class) {
		names, err := s.volumes.IndexKeys(freeByLabel, placeKey(class, key))
		if err == nil {
			n += len(names)
		}
	}
	return n
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/volume"
)

// byClaimant, freeByLabel and freeByPlace are the names of the indexes of VolumeIndexers.
const (
	byClaimant  = "livesched.claimant"
	freeByLabel = "livesched.freeLabel"
	freeByPlace = "livesched.freePlace"
)

// VolumeIndexers index the PersistentVolumes of an informer for VolumesFor and VolumesOn.
var VolumeIndexers = toolscache.Indexers{byClaimant: claimantOf, freeByLabel: freeLabelOf, freeByPlace: freePlaceOf}

// claimantOf returns the claim that alone can be bound to a volume, or the class whose claims all
// can. A volume that names its claim without a UID is for the next claim of that name.
func claimantOf(object any) ([]string, error) {
	pv, ok := object.(*corev1.PersistentVolume)
	if !ok {
		return nil, fmt.Errorf("%T is no volume", object)
	}
	if ref := pv.Spec.ClaimRef; ref != nil && ref.UID != "" {
		return []string{claimantKey(ref.UID)}, nil
	}
	return []string{classKey(volume.GetPersistentVolumeClass(pv))}, nil
}

func claimantKey(claim types.UID) string { return "claim/" + string(claim) }
func classKey(class string) string       { return "class/" + class }

// VolumesFor returns the volumes of a class that claims may be bound to, without those that are
// bound to other claims: in most clusters, these are nearly all. volume.FindMatchingVolume, which
// decides for VolumeBinding, passes over the volumes that are left out.
func VolumesFor(volumes toolscache.Indexer, class string, claims ...types.UID) ([]any, error) {
	free, err := volumes.ByIndex(byClaimant, classKey(class))
	if err != nil {
		return nil, err
	}
	return appendOwn(free, volumes, class, claims)
}

// IsClaimed reports whether a volume is meant for a claim alone.
func IsClaimed(volumes toolscache.Indexer, claim types.UID) bool {
	own, err := volumes.ByIndex(byClaimant, claimantKey(claim))
	return err == nil && len(own) > 0
}

// appendOwn appends the volumes of a class that are meant for some claims alone.
func appendOwn(to []any, volumes toolscache.Indexer, class string, claims []types.UID) ([]any, error) {
	for _, claim := range claims {
		own, err := volumes.ByIndex(byClaimant, claimantKey(claim))
		if err != nil {
			return nil, err
		}
		own = slices.DeleteFunc(own, func(object any) bool {
			return volume.GetPersistentVolumeClass(object.(*corev1.PersistentVolume)) != class
		})
		to = append(to, own...)
	}
	return to, nil
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/volume"
)

// A placed volume is free, for any claim of its class, and can be mounted only on nodes on which
// one label has one value, as local volumes can. A class may have one or more on each node.

// placeOfVolume returns the label of the nodes, or false if the volume is no placed volume.
func placeOfVolume(pv *corev1.PersistentVolume) (key, value string, ok bool) {
	if pv.Spec.ClaimRef != nil || pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return "", "", false
	}
	terms := pv.Spec.NodeAffinity.Required.NodeSelectorTerms
	if len(terms) != 1 || len(terms[0].MatchFields) > 0 || len(terms[0].MatchExpressions) != 1 {
		return "", "", false
	}
	only := &terms[0].MatchExpressions[0]
	if only.Operator != corev1.NodeSelectorOpIn || len(only.Values) != 1 {
		return "", "", false
	}
	return only.Key, only.Values[0], true
}

// freeLabelOf returns the class of a placed volume with the key of the label.
func freeLabelOf(object any) ([]string, error) {
	pv, ok := object.(*corev1.PersistentVolume)
	if !ok {
		return nil, fmt.Errorf("%T is no volume", object)
	}
	key, _, ok := placeOfVolume(pv)
	if !ok {
		return nil, nil
	}
	return []string{placeKey(volume.GetPersistentVolumeClass(pv), key)}, nil
}

// freePlaceOf returns the class of a volume that any claim may be bound to, with the label of a
// placed volume.
func freePlaceOf(object any) ([]string, error) {
	pv, ok := object.(*corev1.PersistentVolume)
	switch {
	case !ok:
		return nil, fmt.Errorf("%T is no volume", object)
	case pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.UID != "":
		return nil, nil
	}
	class := volume.GetPersistentVolumeClass(pv)
	if key, value, ok := placeOfVolume(pv); ok {
		return []string{placeKey(class, key, value)}, nil
	}
	return []string{placeKey(class)}, nil
}

// placeKey returns an index value. The parts cannot contain the separator.
func placeKey(parts ...string) string { return strings.Join(parts, placeSeparator) }

// ArePlaced reports whether a class has placed volumes.
func ArePlaced(volumes toolscache.Indexer, class string) bool {
	for range labelsOfPlaced(volumes, class) {
		return true
	}
	return false
}

// labelsOfPlaced are the keys of the labels of the placed volumes of a class.
func labelsOfPlaced(volumes toolscache.Indexer, class string) (keys []string) {
	for _, value := range volumes.ListIndexFuncValues(freeByLabel) {
		if of, key, _ := strings.Cut(value, placeSeparator); of == class {
			keys = append(keys, key)
		}
	}
	return keys
}

// VolumesOn is VolumesFor without the placed volumes of other nodes than one with these labels.
// With nil, it leaves out all placed volumes.
func VolumesOn(volumes toolscache.Indexer, class string, labels map[string]string, claims ...types.UID) ([]any, error) {
	all, err := volumes.ByIndex(freeByPlace, placeKey(class))
	if err != nil {
		return nil, err
	}
	if labels != nil {
		for _, key := range labelsOfPlaced(volumes, class) {
			value, ok := labels[key]
			if !ok {
				continue
			}
			here, err := volumes.ByIndex(freeByPlace, placeKey(class, key, value))
			if err != nil {
				return nil, err
			}
			all = append(all, here...)
		}
	}
	return appendOwn(all, volumes, class, claims)
}

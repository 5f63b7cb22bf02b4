// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

// capacityByLabels and capacityByPlace are the names of the indexes of CapacityIndexers. A place is
// what an object requires of the labels of its nodes: some values. The first index has the keys of
// these labels. A cluster has few different sets of keys, and often one place for each node.
const (
	capacityByLabels = "livesched.capacityLabels"
	capacityByPlace  = "livesched.capacityPlace"
)

// CapacityIndexers index the CSIStorageCapacities of an informer for CapacitiesFor.
var CapacityIndexers = toolscache.Indexers{
	capacityByLabels: func(object any) ([]string, error) { return capacityIndex(object, capacityKeysOf) },
	capacityByPlace:  func(object any) ([]string, error) { return capacityIndex(object, capacityPlaceOf) },
}

// capacityIndex returns no value for an object that no node can use.
func capacityIndex(object any, of func(*storagev1.CSIStorageCapacity) string) ([]string, error) {
	capacity, ok := object.(*storagev1.CSIStorageCapacity)
	switch {
	case !ok:
		return nil, fmt.Errorf("%T is no capacity", object)
	case capacity.NodeTopology == nil:
		return nil, nil
	}
	return []string{of(capacity)}, nil
}

// placeSeparator and keySeparator cannot be part of the key or the value of a label.
const (
	placeSeparator = "\n"
	keySeparator   = "\t"
)

// capacityKeysOf returns the keys of the labels that an object requires to have some value, in
// their order. The object may require more of the labels.
func capacityKeysOf(capacity *storagev1.CSIStorageCapacity) string {
	return strings.Join(slices.Sorted(maps.Keys(capacity.NodeTopology.MatchLabels)), keySeparator)
}

// capacityPlaceOf returns the place of an object: capacityKeysOf with the values.
func capacityPlaceOf(capacity *storagev1.CSIStorageCapacity) string {
	place, _ := placeIn(capacityKeysOf(capacity), capacity.NodeTopology.MatchLabels)
	return place
}

// placeIn returns the place of a node with these labels among the places with these keys. A node
// that lacks one of the labels is in none.
func placeIn(keys string, labels map[string]string) (string, bool) {
	if keys == "" {
		return "", true
	}
	place := keys
	for key := range strings.SplitSeq(keys, keySeparator) {
		value, ok := labels[key]
		if !ok {
			return "", false
		}
		place += placeSeparator + value
	}
	return place, true
}

// CapacitiesFor returns the CSIStorageCapacities that a node with these labels may use: all that
// match its labels, and maybe some that require more than values of labels. The store must have
// CapacityIndexers.
func CapacitiesFor(capacities toolscache.Indexer, labels map[string]string) (all []any, err error) {
	for _, keys := range capacities.ListIndexFuncValues(capacityByLabels) {
		place, ok := placeIn(keys, labels)
		if !ok {
			continue
		}
		some, err := capacities.ByIndex(capacityByPlace, place)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

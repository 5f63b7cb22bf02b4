// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"fmt"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// capacityDriver reports its capacity.
const capacityDriver = "capacity.example"

// addCapacities makes the storage classes whose driver reports its capacity, and the capacity of
// some nodes.
func (w *world) addCapacities() {
	storage := w.handle.SharedInformerFactory().Storage().V1()
	w.put(w.indexer(storage.CSIDrivers().Informer()), &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: capacityDriver},
		Spec:       storagev1.CSIDriverSpec{StorageCapacity: ptr.To(true)},
	})
	for _, class := range []volumeKind{measured, pooled} {
		w.put(w.indexer(storage.StorageClasses().Informer()), &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: string(class)}, Provisioner: capacityDriver,
			VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
		})
	}
	for range 2 * len(w.nodes) {
		w.changeCapacity()
	}
}

// changeCapacity makes an object that reports capacity, changes or deletes one.
func (w *world) changeCapacity() {
	capacities := w.indexer(w.handle.SharedInformerFactory().Storage().V1().CSIStorageCapacities().Informer())
	if old := inOrder(capacities); len(old) > 0 && w.chance(25) {
		gone := pick(w.generator, old)
		w.must(capacities.Delete(gone))
		w.volumeChanges.OnDelete(cache.DeletedFinalStateUnknown{Obj: gone})
		return
	}
	made := w.newCapacity()
	before, exists, _ := capacities.GetByKey(made.Namespace + "/" + made.Name)
	if !exists {
		w.put(capacities, made)
		return
	}
	w.must(capacities.Update(made))
	w.volumeChanges.OnUpdate(before, made)
}

// newCapacity returns an object. If several are for one node and class, they have the same
// capacity: otherwise, the score that the plugin computes is that of any of them.
func (w *world) newCapacity() *storagev1.CSIStorageCapacity {
	gibibytes := func(n int) *resource.Quantity { return resource.NewQuantity(int64(n)<<30, resource.BinarySI) }
	made := &storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Namespace: namespaces[0]}}
	if w.chance(70) {
		node := pick(w.generator, w.nodes)
		made.Name, made.StorageClassName = "of-"+node.Name, string(measured)
		made.NodeTopology = &metav1.LabelSelector{MatchLabels: map[string]string{hostname: node.Name}}
		if at, ok := node.Labels[zone]; ok && w.chance(20) {
			made.NodeTopology.MatchLabels[zone] = at
		}
		made.Capacity = gibibytes(w.IntN(24))
		if w.even { // nodes with the same hostname
			made.Capacity = gibibytes(12)
		}
	} else {
		made.Name, made.StorageClassName = fmt.Sprintf("pool-%d", w.IntN(6)), string(pooled)
		made.NodeTopology = pick(w.generator, []*metav1.LabelSelector{
			{}, nil,
			{MatchLabels: map[string]string{zone: "zone-0"}}, {MatchLabels: map[string]string{zone: "zone-1"}},
			{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: zone, Operator: metav1.LabelSelectorOpDoesNotExist}}},
			{MatchLabels: map[string]string{zone: "zone-2"}, MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "disk", Operator: metav1.LabelSelectorOpExists}}},
			{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: zone, Operator: "Near"}}},
		})
		made.Capacity = gibibytes(20)
	}
	if w.chance(60) {
		made.MaximumVolumeSize = gibibytes(w.IntN(10))
	}
	if w.chance(5) {
		made.Capacity, made.MaximumVolumeSize = nil, nil
	}
	return made
}

// inOrder returns the objects of a store by their keys: the same seed makes the same world.
func inOrder(store cache.Store) []any {
	var all []any
	for _, key := range slices.Sorted(slices.Values(store.ListKeys())) {
		if object, exists, err := store.GetByKey(key); err == nil && exists {
			all = append(all, object)
		}
	}
	return all
}

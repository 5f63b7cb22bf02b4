// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"math/rand/v2"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// zones are the values of the label of that name.
var zones = []string{"z0", "z1", "z2"}

// The driver reports how much room each zone has for volumes. It is not exact: the driver may fail
// all the same.
const (
	csiDriverKey   = "/registry/csidrivers/" + volumeDriver
	capacityPrefix = "/registry/csistoragecapacities/" + ownNamespace + "/"
	largestRoom    = "20Gi"
)

// reportCapacities creates the driver and its capacities, also after a restore of etcd.
func (w *World) reportCapacities() {
	if w.cluster.csiDrivers[csiDriverKey] == nil {
		w.must(w.cluster.objects.Create(w.ctx, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: volumeDriver},
			Spec: storagev1.CSIDriverSpec{StorageCapacity: ptr.To(true)}}))
	}
	for _, zone := range zones {
		if w.cluster.capacities[capacityPrefix+zone] == nil {
			w.must(w.cluster.objects.Create(w.ctx, &storagev1.CSIStorageCapacity{
				ObjectMeta:       metav1.ObjectMeta{Namespace: ownNamespace, Name: zone},
				StorageClassName: classLate,
				NodeTopology:     &metav1.LabelSelector{MatchLabels: map[string]string{zoneLabel: zone}},
				Capacity:         ptr.To(resource.MustParse(largestRoom))}))
		}
	}
}

// changeCapacity gives a zone more or less room for volumes.
func (w *World) changeCapacity(r *rand.Rand) {
	capacity := w.cluster.capacities[capacityPrefix+one(r, zones)].DeepCopy()
	if capacity == nil {
		return
	}
	room := one(r, []string{"0", "3Gi", largestRoom})
	w.log.add("zone %s has room for volumes of %s", capacity.Name, room)
	capacity.Capacity = ptr.To(resource.MustParse(room))
	w.must(w.cluster.objects.Update(w.ctx, capacity))
}

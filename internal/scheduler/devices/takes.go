// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// take is what a claim has been allocated of a pool, as far as no other claim may have it.
type take struct {
	devices  []structured.DeviceID
	shares   []structured.SharedDeviceID
	capacity []structured.DeviceConsumedCapacity
}

// takes returns what a claim takes of each pool; see takesOf.
func (x *index) takes(claim *resourcev1.ResourceClaim) map[poolKey]*take {
	return takesOf(claim, x.consumable)
}

// takesOf returns what a claim takes of each pool. Devices that are allocated for administrative
// access (KEP-5018) are free for others. It returns nothing for a claim without an allocation, or
// without a claim.
//
// The rules are those of foreachAllocatedDevice in
// k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources/allocateddevices.go.
func takesOf(claim *resourcev1.ResourceClaim, consumable bool) map[poolKey]*take {
	if claim == nil || claim.Status.Allocation == nil {
		return nil
	}
	taken := map[poolKey]*take{}
	for i := range claim.Status.Allocation.Devices.Results {
		result := &claim.Status.Allocation.Devices.Results[i]
		if ptr.Deref(result.AdminAccess, false) {
			continue
		}
		key := poolKey{result.Driver, result.Pool}
		t := taken[key]
		if t == nil {
			t = &take{}
			taken[key] = t
		}
		device := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
		if !consumable || result.ShareID == nil {
			t.devices = append(t.devices, device)
			continue
		}
		t.shares = append(t.shares, structured.MakeSharedDeviceID(device, result.ShareID))
		if result.ConsumedCapacity != nil {
			t.capacity = append(t.capacity, structured.NewDeviceConsumedCapacity(device, result.ConsumedCapacity))
		}
	}
	return taken
}

// within reports whether the devices are among those of other, which may be nil. It returns false
// for shares of devices: while a claim is both pending and allocated, Kubernetes counts their
// capacity twice.
func (t *take) within(other *take) bool {
	return other != nil && len(t.shares) == 0 && !slices.ContainsFunc(t.devices,
		func(id structured.DeviceID) bool { return !slices.Contains(other.devices, id) })
}

func (t *take) addTo(s *structured.AllocatedState) {
	s.AllocatedDevices.Insert(t.devices...)
	s.AllocatedSharedDeviceIDs.Insert(t.shares...)
	for _, capacity := range t.capacity {
		s.AggregatedCapacity.Insert(capacity)
	}
}

func (t *take) removeFrom(s *structured.AllocatedState) {
	s.AllocatedDevices.Delete(t.devices...)
	s.AllocatedSharedDeviceIDs.Delete(t.shares...)
	for _, capacity := range t.capacity {
		s.AggregatedCapacity.Remove(capacity)
	}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"maps"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kubernetes/pkg/features"
)

// Allocations are the devices and the shares of devices that claims have, apart from those for
// administrative access: the number of claims that have each, by its driver, pool and name.
type Allocations map[string]int

// Add adds what a claim has.
func (a Allocations) Add(claim *resourcev1.ResourceClaim) {
	names := sets.New[string]()
	for _, take := range takesOf(claim, consumesCapacity()) {
		for _, device := range take.devices {
			names.Insert(device.String())
		}
		for _, share := range take.shares {
			names.Insert(share.String())
		}
	}
	for name := range names {
		a[name]++
	}
}

// consumesCapacity reports whether claims may have shares of devices.
func consumesCapacity() bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.DRAConsumableCapacity)
}

// Allocations returns what plugins take for allocated to claims, without allocations that are
// pending. It returns nil if dynamic resource allocation is off.
func (m *Managers) Allocations() Allocations {
	n, ok := m.DRA.(*narrowable)
	if !ok {
		return nil
	}
	devices, shares := n.index.allocatedToClaims()
	all := make(Allocations, len(devices)+len(shares))
	for device, claims := range devices {
		all[device.String()] = claims
	}
	for share := range shares {
		all[share.String()] = 1
	}
	return all
}

// allocatedToClaims returns the devices that claims have, each with the number of claims, and the
// shares. The results belong to the caller.
func (x *index) allocatedToClaims() (map[structured.DeviceID]int, sets.Set[structured.SharedDeviceID]) {
	x.mu.Lock()
	defer x.mu.Unlock()
	devices, shares := map[structured.DeviceID]int{}, sets.Set[structured.SharedDeviceID]{}
	for _, p := range x.pools {
		for device := range p.allocated.AllocatedDevices {
			devices[device] = 1 + p.again[device]
		}
		maps.Copy(shares, p.allocated.AllocatedSharedDeviceIDs)
	}
	return devices, shares
}

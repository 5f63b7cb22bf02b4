// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package devices

import (
	resourcev1 "k8s.io/api/resource/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"
)

// Allocations are the devices that claims have, apart from those for administrative access: the
// number of claims of each, by driver/pool/device, or by driver/pool/device/share.
type Allocations map[string]int

// Add adds what a claim has.
func (a Allocations) Add(claim *resourcev1.ResourceClaim) {
	x := index{consumable: utilfeature.DefaultFeatureGate.Enabled(features.DRAConsumableCapacity)}
	for _, take := range x.takes(claim) {
		for _, device := range take.devices {
			a[device.String()]++
		}
		for _, share := range take.shares {
			a[share.String()]++
		}
	}
}

// Allocations returns what plugins take for allocated to claims, without allocations that are
// pending. It returns nil if dynamic resource allocation is off.
func (m *Managers) Allocations() Allocations {
	n, ok := m.DRA.(*narrowable)
	if !ok {
		return nil
	}
	return n.index.allocations()
}

func (x *index) allocations() Allocations {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := Allocations{}
	for _, p := range x.pools {
		for device := range p.allocated.AllocatedDevices {
			all[device.String()] = 1 + p.again[device]
		}
		for share := range p.allocated.AllocatedSharedDeviceIDs {
			all[share.String()] = 1
		}
	}
	return all
}

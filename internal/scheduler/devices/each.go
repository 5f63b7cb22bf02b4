// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"cmp"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
)

// deviceFunc is called for a device. allocated means that a claim has it for itself, and consumed
// is what claims have of its capacity. It must not use the managers.
type deviceFunc = func(driver string, device *resourcev1.Device, allocated bool, consumed structured.ConsumedCapacity)

// EachDevice calls a function for the devices in a node's own slices, in the order in which
// Kubernetes' allocators try them: those of a pool together, by the names of pools and slices. It
// returns the version of these devices and of what is allocated of them. If that is the known one,
// it does not call the function. Plugins use it that look at what is left of the devices of a node.
func (n *narrowable) EachDevice(node string, known [2]uint64, do deviceFunc) (version [2]uint64) {
	return n.index.each(node, nil, known, do)
}

// EachDevice implements what narrowable does, with the pending allocations of the fork.
func (f forkedDRA) EachDevice(node string, known [2]uint64, do deviceFunc) (version [2]uint64) {
	return f.index.each(node, f.claims.index, known, do)
}

// each calls a function for the devices of a node. more, which may be nil, has further pending
// allocations. The version consists of one by each index. The version of no devices is 0.
func (x *index) each(node string, more *index, known [2]uint64, do deviceFunc) (version [2]uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	version[0] = x.sliceChanges[node]
	for key := range x.nodes[node] {
		version[0] = max(version[0], x.pools[key].changed)
	}
	if more != nil {
		more.mu.Lock()
		defer more.mu.Unlock()
		for key := range x.nodes[node] {
			if p := more.pools[key]; p != nil {
				version[1] = max(version[1], p.changed)
			}
		}
	}
	if version == known {
		return version
	}
	for _, key := range x.poolsOfLocked(node) {
		p := x.pools[key]
		taken := append([]*structured.AllocatedState{&p.allocated}, x.promisedLocked(key)...)
		if more != nil {
			taken = append(taken, more.promisedLocked(key)...)
		}
		for _, slice := range p.ownSlices(node) {
			for i := range slice.Spec.Devices {
				device := &slice.Spec.Devices[i]
				allocated, consumed := takenOf(taken, structured.MakeDeviceID(key.driver, key.name, device.Name))
				do(key.driver, device, allocated, consumed)
			}
		}
	}
	return version
}

// poolsOfLocked returns the pools with slices of a node, in order.
func (x *index) poolsOfLocked(node string) []poolKey {
	keys := make([]poolKey, 0, len(x.nodes[node]))
	for key := range x.nodes[node] {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b poolKey) int {
		return cmp.Or(strings.Compare(a.driver, b.driver), strings.Compare(a.name, b.name))
	})
	return keys
}

// promisedLocked returns what each pending claim takes of a pool.
func (x *index) promisedLocked(key poolKey) []*structured.AllocatedState {
	p := x.pools[key]
	if p == nil || len(p.pending) == 0 {
		return nil
	}
	var all []*structured.AllocatedState
	for _, claim := range p.pending {
		state := newAllocatedState()
		x.takes(claim)[key].addTo(&state)
		all = append(all, &state)
	}
	return all
}

// ownSlices returns the slices of a node in the pool, in order, without those that the driver has
// replaced.
func (p *pool) ownSlices(node string) []*resourcev1.ResourceSlice {
	var newest int64
	for _, slice := range p.slices {
		newest = max(newest, slice.Spec.Pool.Generation)
	}
	var own []*resourcev1.ResourceSlice
	for _, slice := range p.slices {
		if name := slice.Spec.NodeName; name != nil && *name == node && slice.Spec.Pool.Generation == newest {
			own = append(own, slice)
		}
	}
	slices.SortFunc(own, func(a, b *resourcev1.ResourceSlice) int { return strings.Compare(a.Name, b.Name) })
	return own
}

// takenOf returns what is taken of a device.
func takenOf(states []*structured.AllocatedState, device structured.DeviceID) (allocated bool,
	consumed structured.ConsumedCapacity) {
	shared := false // consumed is not one of the states' own
	for _, state := range states {
		allocated = allocated || state.AllocatedDevices.Has(device)
		capacity := state.AggregatedCapacity[device]
		switch {
		case capacity == nil:
		case consumed == nil:
			consumed = capacity
		default:
			if !shared {
				consumed, shared = consumed.Clone(), true
			}
			consumed.Add(capacity)
		}
	}
	return allocated, consumed
}

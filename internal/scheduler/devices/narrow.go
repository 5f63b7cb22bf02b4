// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"sync"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// narrowable is the manager of dynamic resources that the plugins of the process get. While it is
// narrowed to some nodes, it lists the slices and the allocated devices on which allocations on
// these nodes depend, and no others. PreFilter of DynamicResources then costs as much as the
// devices of these nodes, rather than those of the cluster.
//
// The goroutine of the scheduling loop narrows and widens it. The methods that list devices are
// only called by plugins in a scheduling cycle, in that goroutine or in others that end before it
// goes on. Binding cycles and event handlers call the other methods.
type narrowable struct {
	fwk.SharedDRAManager // for all nodes
	index                *index
	cache                *assumecache.AssumeCache // of claims
	// narrowed is true while only the devices for nodes are listed.
	narrowed bool
	nodes    []string
	// pendingMu is held while a pending allocation is added to the tracker and to the index, or
	// removed from both.
	pendingMu sync.Mutex
	arrivals  arrivals // of claims, for binding cycles
}

// Narrow makes PreFilter of DynamicResources see the devices of these nodes only, until the
// returned function is called. If it returns false, it has done nothing: the managers are those of
// a fork, DynamicResources reads devices of other nodes, too, or most devices are of no single
// node.
//
// Only the goroutine of the scheduling loop may call Narrow, for a PreFilter that it runs itself.
func (m *Managers) Narrow(nodes []string) (widen func(), ok bool) {
	n, ok := m.DRA.(*narrowable)
	if !ok || !m.mayNarrow || n.index.mostAreShared() {
		return nil, false
	}
	n.narrowed, n.nodes = true, nodes
	return func() { n.narrowed, n.nodes = false, nil }, true
}

// ChangedNodes returns the names of the nodes on which an allocation of devices may have another
// outcome than at a position in the list of these changes, as far as it depends on slices and other
// allocations, and the end of the list. ok is false if that may be any node. The list is complete
// while SeparateDevices returns true.
func (m *Managers) ChangedNodes(since uint64) (names []string, end uint64, ok bool) {
	n, narrows := m.DRA.(*narrowable)
	if !narrows {
		return nil, 0, false
	}
	return n.index.changed(since)
}

// SeparateDevices reports whether each device belongs to a single node, so that allocations on
// other nodes do not matter to the outcome of one.
func (m *Managers) SeparateDevices() bool {
	n, ok := m.DRA.(*narrowable)
	return ok && n.index.separate()
}

// ResourceClaims implements SharedDRAManager.
func (n *narrowable) ResourceClaims() fwk.ResourceClaimTracker {
	return narrowableClaims{n.claims(), n}
}

// ResourceSlices implements SharedDRAManager.
func (n *narrowable) ResourceSlices() fwk.ResourceSliceLister {
	return narrowableSlices{n.SharedDRAManager.ResourceSlices(), n}
}

type narrowableSlices struct {
	fwk.ResourceSliceLister
	of *narrowable
}

// ListWithDeviceTaintRules implements ResourceSliceLister.
func (s narrowableSlices) ListWithDeviceTaintRules() ([]*resourcev1.ResourceSlice, error) {
	if !s.of.narrowed {
		return s.ResourceSliceLister.ListWithDeviceTaintRules()
	}
	return s.of.index.slicesFor(s.of.nodes), nil
}

// claims returns the claims of all nodes. Any goroutine may use them.
func (n *narrowable) claims() indexedClaims {
	return indexedClaims{n.SharedDRAManager.ResourceClaims(), n.index}
}

// indexedClaims lists the allocated devices of the index. Those of the tracker lack a device that
// one of two claims has had, and the changes of a claim that was allocated on other devices while
// the informer was away.
type indexedClaims struct {
	fwk.ResourceClaimTracker
	index *index
}

// ListAllAllocatedDevices implements ResourceClaimTracker.
func (c indexedClaims) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	return c.index.allAllocated().AllocatedDevices, nil
}

// GatherAllocatedState implements ResourceClaimTracker.
func (c indexedClaims) GatherAllocatedState() (*structured.AllocatedState, error) {
	return c.index.allAllocated(), nil
}

type narrowableClaims struct {
	indexedClaims
	of *narrowable
}

// ListAllAllocatedDevices implements ResourceClaimTracker.
func (c narrowableClaims) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	if !c.of.narrowed {
		return c.indexedClaims.ListAllAllocatedDevices()
	}
	return c.of.index.allocatedFor(c.of.nodes).AllocatedDevices, nil
}

// GatherAllocatedState implements ResourceClaimTracker.
func (c narrowableClaims) GatherAllocatedState() (*structured.AllocatedState, error) {
	if !c.of.narrowed {
		return c.indexedClaims.GatherAllocatedState()
	}
	return c.of.index.allocatedFor(c.of.nodes), nil
}

// SignalClaimPendingAllocation implements ResourceClaimTracker. The tracker does not take an
// allocation of a claim that has one.
func (c narrowableClaims) SignalClaimPendingAllocation(uid types.UID, allocated *resourcev1.ResourceClaim) error {
	c.of.pendingMu.Lock()
	defer c.of.pendingMu.Unlock()
	err := c.ResourceClaimTracker.SignalClaimPendingAllocation(uid, allocated)
	if err == nil && c.GetPendingAllocation(uid) != nil {
		c.of.index.setPending(uid, allocated)
	}
	return err
}

// AssumedClaimRestore implements ResourceClaimTracker. It does nothing: what is assumed is what the
// API server has answered, so what the informer has is older. Only what is assumed of a claim for
// extended resources may not exist, if its allocation has got no answer. That claim is deleted.
func (narrowableClaims) AssumedClaimRestore(string, string) {}

// MaybeRemoveClaimPendingAllocation implements ResourceClaimTracker. If the cache already has the
// allocation, the index gets it first: otherwise the devices would be free for a moment.
func (c narrowableClaims) MaybeRemoveClaimPendingAllocation(uid types.UID, force bool) (deleted bool) {
	waitForHandlers(c.of.cache)
	c.of.pendingMu.Lock()
	defer c.of.pendingMu.Unlock()
	deleted = c.ResourceClaimTracker.MaybeRemoveClaimPendingAllocation(uid, force)
	if deleted {
		c.of.index.endPending(uid)
	}
	return deleted
}

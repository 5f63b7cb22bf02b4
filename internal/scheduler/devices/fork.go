// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"context"
	"errors"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"

	"github.com/livesched/livesched/internal/informers"
)

// Fork returns managers whose pending allocations are their own, and change nothing in m. All else
// is read from m, as it is at the time, also what m assumes: a fork adds no event handlers, for
// which every claim of the cluster would be replayed.
func (m *Managers) Fork(ctx context.Context, scope *informers.Scope) *Managers {
	f := &Managers{CSI: m.CSI, claims: m.claims, tracked: m.tracked, classes: m.classes, changeCounts: m.changeCounts}
	if m.DRA != nil {
		process := m.DRA
		if n, ok := process.(*narrowable); ok {
			process = n.SharedDRAManager // forks are used by other goroutines
		}
		f.DRA = forkedDRA{process, newForkedClaims(ctx, process, m.tracked, scope)}
	}
	return f
}

// forkedDRA is the manager of dynamic resources of a fork.
type forkedDRA struct {
	fwk.SharedDRAManager // of the process
	claims               *forkedClaims
}

// ResourceClaims implements SharedDRAManager.
func (f forkedDRA) ResourceClaims() fwk.ResourceClaimTracker { return f.claims }

// forkedClaims are the claims of the process with the pending allocations of a fork.
//
//	claims and what is allocated    ---- process: informer, assumed, pending
//	                                  \- own: pending in the fork
//
// A pending allocation of the process counts for the fork, too, and no method removes it.
type forkedClaims struct {
	process fwk.ResourceClaimTracker
	// own knows only the claims that got pending allocations in the fork, as they were before.
	own fwk.ResourceClaimTracker
	// learn makes own know claims.
	learn *learner
}

func newForkedClaims(ctx context.Context, process fwk.SharedDRAManager, tracked *tracker.Tracker,
	scope *informers.Scope) *forkedClaims {
	learn := &learner{}
	known := assumecache.NewAssumeCache(klog.FromContext(ctx), learn, "ResourceClaim", "", nil)
	own := dynamicresources.NewDRAManager(ctx, known, tracked, scope)
	return &forkedClaims{process: process.ResourceClaims(), own: own.ResourceClaims(), learn: learn}
}

// learner is the informer of an assume cache to which objects are added one by one.
type learner struct {
	toolscache.ResourceEventHandler
}

// AddEventHandler implements assumecache.Informer.
func (l *learner) AddEventHandler(
	handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	l.ResourceEventHandler = handler
	return &informers.EmptyRegistration{Done: informers.AlreadyDone("claims of a fork")}, nil
}

// List implements ResourceClaimTracker.
func (f *forkedClaims) List() ([]*resourcev1.ResourceClaim, error) { return f.process.List() }

// Get implements ResourceClaimTracker.
func (f *forkedClaims) Get(namespace, name string) (*resourcev1.ResourceClaim, error) {
	return f.process.Get(namespace, name)
}

// ListAllAllocatedDevices implements ResourceClaimTracker. The result belongs to the caller, as do
// those of the two trackers.
func (f *forkedClaims) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	all, err := f.process.ListAllAllocatedDevices()
	if err != nil {
		return nil, err
	}
	own, err := f.own.ListAllAllocatedDevices()
	if err != nil {
		return nil, err
	}
	return addAll(all, own), nil
}

// GatherAllocatedState implements ResourceClaimTracker. The result belongs to the caller, as do
// those of the two trackers.
func (f *forkedClaims) GatherAllocatedState() (*structured.AllocatedState, error) {
	all, err := f.process.GatherAllocatedState()
	if err != nil {
		return nil, err
	}
	own, err := f.own.GatherAllocatedState()
	if err != nil {
		return nil, err
	}
	addAll(all.AllocatedDevices, own.AllocatedDevices)
	addAll(all.AllocatedSharedDeviceIDs, own.AllocatedSharedDeviceIDs)
	for device, capacity := range own.AggregatedCapacity {
		all.AggregatedCapacity.Insert(structured.DeviceConsumedCapacity{DeviceID: device, ConsumedCapacity: capacity})
	}
	return all, nil
}

func addAll[T comparable](to, more sets.Set[T]) sets.Set[T] {
	for each := range more {
		to.Insert(each)
	}
	return to
}

// SignalClaimPendingAllocation implements ResourceClaimTracker. It does nothing if the claim is
// allocated in the process, or about to be.
func (f *forkedClaims) SignalClaimPendingAllocation(uid types.UID, allocated *resourcev1.ResourceClaim) error {
	if f.own.GetPendingAllocation(uid) == nil {
		if f.process.GetPendingAllocation(uid) != nil {
			return nil
		}
		// A claim for an extended resource does not exist yet.
		if claim, err := f.process.Get(allocated.Namespace, allocated.Name); err == nil {
			if claim.UID == uid && claim.Status.Allocation != nil {
				return nil
			}
			f.learn.OnAdd(claim, false)
		}
	}
	return f.own.SignalClaimPendingAllocation(uid, allocated) // which refuses claims that it does not know
}

// GetPendingAllocation implements ResourceClaimTracker.
func (f *forkedClaims) GetPendingAllocation(uid types.UID) *resourcev1.AllocationResult {
	if pending := f.own.GetPendingAllocation(uid); pending != nil {
		return pending
	}
	return f.process.GetPendingAllocation(uid)
}

// MaybeRemoveClaimPendingAllocation implements ResourceClaimTracker.
func (f *forkedClaims) MaybeRemoveClaimPendingAllocation(uid types.UID, force bool) (deleted bool) {
	return f.own.MaybeRemoveClaimPendingAllocation(uid, force)
}

// AssumeClaimAfterAPICall implements ResourceClaimTracker. The client of a fork writes nothing.
func (*forkedClaims) AssumeClaimAfterAPICall(*resourcev1.ResourceClaim) error {
	return errors.New("a fork writes no resource claims, and assumes none")
}

// AssumedClaimRestore implements ResourceClaimTracker: there is nothing to restore.
func (*forkedClaims) AssumedClaimRestore(string, string) {}

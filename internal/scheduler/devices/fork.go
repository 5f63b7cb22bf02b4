// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

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
	if n, ok := m.DRA.(*narrowable); ok { // nil if dynamic resource allocation is off
		// Not n itself: forks are used by other goroutines.
		f.DRA = forkedDRA{n.SharedDRAManager, newForkedClaims(ctx, n.claims(), n.index.consumable, m.tracked, scope),
			n.index}
	}
	return f
}

// Free makes a fork take the devices of those claims for free that are reserved only for pods with
// UIDs that a function returns true for, until restore is called, or that are pending for such a
// pod, which owns them. The claims themselves stay as they are. Calls may be nested.
func (m *Managers) Free(ended func(types.UID) bool) (restore func(), err error) {
	f, ok := m.DRA.(forkedDRA)
	if !ok {
		return func() {}, nil // no plugin reads claims
	}
	claims, err := f.claims.List()
	if err != nil {
		return nil, err
	}
	freed, own := f.claims.freed, f.claims.freedOwn
	f.claims.freed, f.claims.freedOwn = maps.Clone(freed), maps.Clone(own)
	for _, claim := range claims {
		if isOnlyFor(claim, ended) {
			f.claims.freed[claim.UID] = claim
		}
	}
	maps.Copy(f.claims.freed, f.index.pendingFor(ended))
	maps.Copy(f.claims.freedOwn, f.claims.index.pendingFor(ended))
	return func() { f.claims.freed, f.claims.freedOwn = freed, own }, nil
}

// Release makes the claims of a fork that are reserved only for pods with UIDs that a function
// returns true for as they were before these pods were decided: without devices. Claims for
// extended resources stay as they are.
func (m *Managers) Release(pods func(types.UID) bool) error {
	f, ok := m.DRA.(forkedDRA)
	if !ok {
		return nil // no plugin reads claims
	}
	claims, err := f.claims.List()
	if err != nil {
		return err
	}
	for _, claim := range claims {
		if !isOnlyFor(claim, pods) || IsExtended(claim) {
			continue
		}
		f.claims.freed[claim.UID] = claim
		before := claim.DeepCopy()
		before.Status = resourcev1.ResourceClaimStatus{}
		m.AddClaim(before)
	}
	return nil
}

// AddClaim adds a claim without an allocation to a fork, in place of one of the same name.
func (m *Managers) AddClaim(claim *resourcev1.ResourceClaim) {
	if f, ok := m.DRA.(forkedDRA); ok {
		f.claims.added[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}] = claim
		f.claims.learn.OnAdd(claim, false)
	}
}

// isOnlyFor reports whether a claim is allocated, and reserved only for such pods.
func isOnlyFor(claim *resourcev1.ResourceClaim, pods func(types.UID) bool) bool {
	others := func(r resourcev1.ResourceClaimConsumerReference) bool { return !pods(r.UID) }
	return claim.Status.Allocation != nil && len(claim.Status.ReservedFor) > 0 &&
		!slices.ContainsFunc(claim.Status.ReservedFor, others)
}

// forkedDRA is the manager of dynamic resources of a fork.
type forkedDRA struct {
	fwk.SharedDRAManager // of the process
	claims               *forkedClaims
	index                *index // of the process
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
	// learn makes own know claims. added are those that exist only in the fork, by namespace and
	// name.
	learn *learner
	added map[types.NamespacedName]*resourcev1.ResourceClaim
	// freed are claims of the process whose devices are free in the fork, and freedOwn claims whose
	// own pending allocation does not count.
	freed, freedOwn map[types.UID]*resourcev1.ResourceClaim
	// index has the pending allocations of own, and pendingMu is held while one is added to both,
	// or removed from both.
	index     *index
	pendingMu sync.Mutex
}

func newForkedClaims(ctx context.Context, process fwk.ResourceClaimTracker, consumable bool, tracked *tracker.Tracker,
	scope *informers.Scope) *forkedClaims {
	learn := &learner{}
	known := assumecache.NewAssumeCache(klog.FromContext(ctx), learn, "ResourceClaim", "", nil)
	own := dynamicresources.NewDRAManager(ctx, known, tracked, scope)
	return &forkedClaims{process: process, own: own.ResourceClaims(), learn: learn,
		added: map[types.NamespacedName]*resourcev1.ResourceClaim{}, index: newIndex(consumable),
		freed: map[types.UID]*resourcev1.ResourceClaim{}, freedOwn: map[types.UID]*resourcev1.ResourceClaim{}}
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
	if claim := f.added[types.NamespacedName{Namespace: namespace, Name: name}]; claim != nil {
		return claim, nil
	}
	return f.process.Get(namespace, name)
}

// ListAllAllocatedDevices implements ResourceClaimTracker. The result belongs to the caller.
func (f *forkedClaims) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	all, err := f.process.ListAllAllocatedDevices()
	if err != nil {
		return nil, err
	}
	for _, claim := range f.freed {
		for _, take := range f.index.takes(claim) {
			all.Delete(take.devices...)
		}
	}
	return addAll(all, f.index.pendingBut(f.freedOwn).AllocatedDevices), nil
}

// GatherAllocatedState implements ResourceClaimTracker. The result belongs to the caller.
func (f *forkedClaims) GatherAllocatedState() (*structured.AllocatedState, error) {
	all, err := f.process.GatherAllocatedState()
	if err != nil {
		return nil, err
	}
	own := f.index.pendingBut(f.freedOwn)
	for _, claim := range f.freed {
		for _, take := range f.index.takes(claim) {
			take.removeFrom(all)
		}
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
	f.pendingMu.Lock()
	defer f.pendingMu.Unlock()
	if f.own.GetPendingAllocation(uid) == nil {
		if f.process.GetPendingAllocation(uid) != nil {
			return nil
		}
		// A claim for an extended resource does not exist yet.
		if claim, err := f.Get(allocated.Namespace, allocated.Name); err == nil {
			if claim.UID == uid && claim.Status.Allocation != nil {
				return nil
			}
			f.learn.OnAdd(claim, false)
		}
	}
	err := f.own.SignalClaimPendingAllocation(uid, allocated) // which refuses claims that it does not know
	if err == nil && f.own.GetPendingAllocation(uid) != nil {
		f.index.setPending(uid, allocated)
	}
	return err
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
	f.pendingMu.Lock()
	defer f.pendingMu.Unlock()
	deleted = f.own.MaybeRemoveClaimPendingAllocation(uid, force)
	if deleted {
		f.index.endPending(uid)
	}
	return deleted
}

// AssumeClaimAfterAPICall implements ResourceClaimTracker. The client of a fork writes nothing.
func (*forkedClaims) AssumeClaimAfterAPICall(*resourcev1.ResourceClaim) error {
	return errors.New("a fork writes no resource claims, and assumes none")
}

// AssumedClaimRestore implements ResourceClaimTracker: there is nothing to restore.
func (*forkedClaims) AssumedClaimRestore(string, string) {}

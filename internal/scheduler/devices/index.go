// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"slices"
	"sync"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/scheduler/changelog"
)

// index finds, by node, the slices and the allocated devices on which an allocation of devices on
// that node depends: those of all pools that have a slice of the node, or one of no single node.
// Kubernetes' allocators read no others, but search all of them (GatherPools in
// k8s.io/dynamic-resource-allocation/structured/internal, apart from the one in stable).
//
// Event handlers, the scheduling loop and binding cycles use it at the same time.
type index struct {
	// consumable is the feature gate DRAConsumableCapacity.
	consumable bool

	mu     sync.Mutex                           // guards the fields below
	slices map[string]*resourcev1.ResourceSlice // by name
	pools  map[poolKey]*pool
	// nodes are the pools with slices of a node, by its name, and shared those with slices of no
	// single node, each with the number of these slices. sharedSlices are those of no single node.
	nodes        map[string]map[poolKey]int
	shared       map[poolKey]int
	sharedSlices int
	// version counts the changes of slices and of what is allocated. sliceChanges is the latest one
	// of the slices of a node that has any.
	version      uint64
	sliceChanges map[string]uint64
	// allocated is what allocated claims have of all pools, apart from those that are pending.
	allocated structured.AllocatedState
	// pending are the claims with a pending allocation.
	pending map[types.UID]*resourcev1.ResourceClaim
	// changes are the names of nodes, once slices of their pools have changed, or what is allocated
	// of these. A gap stands for a change of slices of no single node, and of a large pool.
	changes changelog.Log[string]
}

// maxChanges is the number of changes that a reader of index.changes may be behind.
const maxChanges = 1 << 15

// poolKey identifies a pool: the pools of two drivers may have the same name.
type poolKey struct{ driver, name string }

// pool is a pool of devices. It exists as long as it is not empty.
type pool struct {
	slices map[string]*resourcev1.ResourceSlice // by name
	// allocated is what allocated claims have of the pool, apart from those that are pending.
	allocated structured.AllocatedState
	// again counts how many more claims than one have a device. Nothing prevents that if an
	// allocation is executed after its client has given up.
	again   map[structured.DeviceID]int
	pending map[types.UID]*resourcev1.ResourceClaim
	// changed is the version of the index after the latest change of the pool.
	changed uint64
}

func newIndex(consumable bool) *index {
	return &index{
		consumable: consumable, slices: map[string]*resourcev1.ResourceSlice{}, pools: map[poolKey]*pool{},
		nodes: map[string]map[poolKey]int{}, shared: map[poolKey]int{}, sliceChanges: map[string]uint64{},
		allocated: newAllocatedState(), pending: map[types.UID]*resourcev1.ResourceClaim{},
	}
}

func newAllocatedState() structured.AllocatedState {
	return structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
}

// sliceHandler returns the handler for slices. It calls next when the index has a change.
func (x *index) sliceHandler(next toolscache.ResourceEventHandler) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			x.setSlice(objectOf[resourcev1.ResourceSlice](obj))
			next.OnAdd(obj, initial)
		},
		UpdateFunc: func(before, after any) {
			x.setSlice(objectOf[resourcev1.ResourceSlice](after))
			next.OnUpdate(before, after)
		},
		DeleteFunc: func(obj any) {
			x.removeSlice(objectOf[resourcev1.ResourceSlice](obj).Name)
			next.OnDelete(obj)
		},
	}
}

// objectOf returns the object of an event, an empty one if the event has none.
func objectOf[T any](obj any) *T {
	if typed, ok := informers.Last(obj).(*T); ok {
		return typed
	}
	return new(T)
}

// setSlice adds or replaces a slice.
func (x *index) setSlice(slice *resourcev1.ResourceSlice) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.removeSliceLocked(slice.Name)
	x.slices[slice.Name] = slice
	x.poolLocked(keyOf(slice)).slices[slice.Name] = slice
	x.countLocked(slice, 1)
	x.changedLocked(keyOf(slice))
}

func (x *index) removeSlice(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.removeSliceLocked(name)
}

func (x *index) removeSliceLocked(name string) {
	slice := x.slices[name]
	if slice == nil {
		return
	}
	key := keyOf(slice)
	x.changedLocked(key)
	delete(x.slices, name)
	x.countLocked(slice, -1)
	delete(x.pools[key].slices, name)
	x.dropEmptyLocked(key)
}

func keyOf(slice *resourcev1.ResourceSlice) poolKey {
	return poolKey{slice.Spec.Driver, slice.Spec.Pool.Name}
}

// countLocked adds a slice to those of its node, or removes it.
func (x *index) countLocked(slice *resourcev1.ResourceSlice, delta int) {
	node := ptr.Deref(slice.Spec.NodeName, "")
	counts := x.shared
	if node != "" {
		if counts = x.nodes[node]; counts == nil {
			counts = map[poolKey]int{}
			x.nodes[node] = counts
		}
	} else {
		x.sharedSlices += delta
		x.changes.CutShared()
	}
	key := keyOf(slice)
	counts[key] += delta
	if counts[key] == 0 {
		delete(counts, key)
	}
	if node == "" {
		return
	}
	x.version++
	x.sliceChanges[node] = x.version
	if len(counts) == 0 {
		delete(x.nodes, node)
		delete(x.sliceChanges, node)
	}
}

// maxPoolSlices is the number of slices of a pool from which on a change of the pool is a gap.
const maxPoolSlices = 64

// changedLocked records a change of a pool.
func (x *index) changedLocked(key poolKey) {
	p, last := x.poolLocked(key), ""
	x.version++
	p.changed = x.version
	if len(p.slices) > maxPoolSlices {
		x.changes.CutShared()
		return
	}
	for _, slice := range p.slices {
		if node := ptr.Deref(slice.Spec.NodeName, ""); node != "" && node != last {
			last = node
			x.changes.AddShared(node, maxChanges)
		}
	}
}

// changed returns the names of the nodes that have changed since a position in changes, and its
// end. ok is false if any node may have changed.
func (x *index) changed(since uint64) (nodes []string, end uint64, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	nodes, ok = x.changes.Since(since)
	return nodes, x.changes.End(), ok
}

func (x *index) poolLocked(key poolKey) *pool {
	p := x.pools[key]
	if p == nil {
		p = &pool{slices: map[string]*resourcev1.ResourceSlice{}, allocated: newAllocatedState(),
			again: map[structured.DeviceID]int{}, pending: map[types.UID]*resourcev1.ResourceClaim{}}
		x.pools[key] = p
	}
	return p
}

func (x *index) dropEmptyLocked(key poolKey) {
	if p := x.pools[key]; p != nil && len(p.slices) == 0 && len(p.pending) == 0 &&
		len(p.allocated.AllocatedDevices) == 0 && len(p.allocated.AllocatedSharedDeviceIDs) == 0 {
		delete(x.pools, key)
	}
}

// claimHandler returns the handler for claims. An informer that was away may see another allocation
// at once, of the same claim or of one that was created again under its name.
func (x *index) claimHandler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { x.allocate(objectOf[resourcev1.ResourceClaim](obj)) },
		UpdateFunc: func(before, after any) {
			from, to := objectOf[resourcev1.ResourceClaim](before), objectOf[resourcev1.ResourceClaim](after)
			if !equality.Semantic.DeepEqual(from.Status.Allocation, to.Status.Allocation) {
				x.replace(from, to)
			}
		},
		DeleteFunc: func(obj any) { x.free(objectOf[resourcev1.ResourceClaim](obj)) },
	}
}

func (x *index) allocate(claim *resourcev1.ResourceClaim) { x.replace(nil, claim) }

func (x *index) free(claim *resourcev1.ResourceClaim) { x.replace(claim, nil) }

// replace makes free what one claim has, and allocates what the other one has. Either may be nil.
// What both have is never free in between.
func (x *index) replace(from, to *resourcev1.ResourceClaim) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.freeLocked(from)
	x.allocateLocked(to)
}

func (x *index) allocateLocked(claim *resourcev1.ResourceClaim) {
	if claim == nil {
		return
	}
	pending := x.takes(x.pending[claim.UID])
	for key, take := range x.takes(claim) {
		if !take.within(pending[key]) {
			x.changedLocked(key)
		}
		p := x.poolLocked(key)
		for _, device := range take.devices {
			if p.allocated.AllocatedDevices.Has(device) {
				p.again[device]++
			}
		}
		take.addTo(&p.allocated)
		take.addTo(&x.allocated)
	}
}

func (x *index) freeLocked(claim *resourcev1.ResourceClaim) {
	for key, take := range x.takes(claim) {
		p := x.poolLocked(key)
		take.devices = slices.DeleteFunc(take.devices, p.staysAllocated)
		take.removeFrom(&p.allocated)
		take.removeFrom(&x.allocated)
		x.changedLocked(key)
		x.dropEmptyLocked(key)
	}
}

// staysAllocated reports whether another claim has a device, when one that has it is freed.
func (p *pool) staysAllocated(device structured.DeviceID) bool {
	n := p.again[device]
	if n <= 1 {
		delete(p.again, device)
	} else {
		p.again[device] = n - 1
	}
	return n > 0
}

// setPending adds the pending allocation of a claim.
func (x *index) setPending(uid types.UID, claim *resourcev1.ResourceClaim) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.pending[uid] != nil {
		return
	}
	x.pending[uid] = claim
	for key := range x.takes(claim) {
		x.poolLocked(key).pending[uid] = claim
		x.changedLocked(key)
	}
}

// endPending removes the pending allocation of a claim.
func (x *index) endPending(uid types.UID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for key, take := range x.takes(x.pending[uid]) {
		p := x.pools[key]
		delete(p.pending, uid)
		if len(take.shares) > 0 || !p.allocated.AllocatedDevices.HasAll(take.devices...) {
			x.changedLocked(key)
		}
		x.dropEmptyLocked(key)
	}
	delete(x.pending, uid)
}

// pendingFor returns the claims with a pending allocation whose owner is a pod with a UID that a
// function returns true for. The UID is "" if a claim has no owner.
func (x *index) pendingFor(pods func(types.UID) bool) map[types.UID]*resourcev1.ResourceClaim {
	x.mu.Lock()
	defer x.mu.Unlock()
	found := map[types.UID]*resourcev1.ResourceClaim{}
	for uid, claim := range x.pending {
		var owner types.UID
		if controller := metav1.GetControllerOf(claim); controller != nil {
			owner = controller.UID
		}
		if pods(owner) {
			found[uid] = claim
		}
	}
	return found
}

// pendingBut returns what is pending, without some claims. The result belongs to the caller.
func (x *index) pendingBut(without map[types.UID]*resourcev1.ResourceClaim) structured.AllocatedState {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := newAllocatedState()
	for uid, claim := range x.pending {
		if without[uid] != nil {
			continue
		}
		for _, take := range x.takes(claim) {
			take.addTo(&all)
		}
	}
	return all
}

// mostAreShared reports whether most slices are of no single node, so that an allocation on a node
// depends on most of the devices.
func (x *index) mostAreShared() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return 2*x.sharedSlices > len(x.slices)
}

// poolsLocked calls a function for the pools on which an allocation on one of the nodes depends,
// once for each.
func (x *index) poolsLocked(nodes []string, do func(poolKey, *pool)) {
	if len(nodes) == 0 {
		return
	}
	for key := range x.shared {
		do(key, x.pools[key])
	}
	var seen sets.Set[poolKey]
	if len(nodes) > 1 {
		seen = sets.New[poolKey]()
	}
	for _, node := range nodes {
		for key := range x.nodes[node] {
			if x.shared[key] > 0 || seen.Has(key) {
				continue
			}
			if seen != nil {
				seen.Insert(key)
			}
			do(key, x.pools[key])
		}
	}
}

// separate reports whether each device belongs to a single node.
func (x *index) separate() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.sharedSlices == 0
}

// slicesFor returns the slices on which an allocation on one of these nodes depends.
func (x *index) slicesFor(nodes []string) []*resourcev1.ResourceSlice {
	x.mu.Lock()
	defer x.mu.Unlock()
	var all []*resourcev1.ResourceSlice
	x.poolsLocked(nodes, func(_ poolKey, p *pool) {
		for _, slice := range p.slices {
			all = append(all, slice)
		}
	})
	return all
}

// allocatedFor returns what is allocated of the pools on which an allocation on one of these nodes
// depends. The result belongs to the caller.
func (x *index) allocatedFor(nodes []string) *structured.AllocatedState {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := newAllocatedState()
	x.poolsLocked(nodes, func(key poolKey, p *pool) {
		addAll(all.AllocatedDevices, p.allocated.AllocatedDevices)
		addAll(all.AllocatedSharedDeviceIDs, p.allocated.AllocatedSharedDeviceIDs)
		for device, capacity := range p.allocated.AggregatedCapacity {
			all.AggregatedCapacity.Insert(structured.DeviceConsumedCapacity{DeviceID: device,
				ConsumedCapacity: capacity})
		}
		for _, claim := range p.pending {
			x.takes(claim)[key].addTo(&all)
		}
	})
	return &all
}

// allAllocated returns what is allocated of all pools. The result belongs to the caller.
func (x *index) allAllocated() *structured.AllocatedState {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := structured.AllocatedState{
		AllocatedDevices:         x.allocated.AllocatedDevices.Clone(),
		AllocatedSharedDeviceIDs: x.allocated.AllocatedSharedDeviceIDs.Clone(),
		AggregatedCapacity:       x.allocated.AggregatedCapacity.Clone(),
	}
	for _, claim := range x.pending {
		for _, take := range x.takes(claim) {
			take.addTo(&all)
		}
	}
	return &all
}

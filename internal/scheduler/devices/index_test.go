// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/informers/fixed"
)

// twin drives a narrowable manager by random operations, beside lists of what there is.
type twin struct {
	*testing.T
	*rand.Rand
	n       *narrowable
	claims  *learner
	cache   *assumecache.AssumeCache
	scope   *informers.Scope
	handler toolscache.ResourceEventHandler // of slices
	// told are the events of slices that the index has passed on.
	told    int
	version int

	slices map[string]*resourcev1.ResourceSlice
	stored map[string]*resourcev1.ResourceClaim // in the API server, by name
	uids   []types.UID                          // of all claims so far
	// versions are the known versions of the devices of each node, which are in each.
	versions map[string][2]uint64
	each     map[string][]string
}

const (
	numNodes, numPools, numSlices, numClaims, numDevices = 4, 5, 12, 10, 3
)

func newTwin(t *testing.T, seed uint64) *twin {
	source, err := fixed.NewSource(nil)
	if err != nil {
		t.Fatal(err)
	}
	scope := source.NewScope()
	t.Cleanup(scope.Close)
	w := &twin{T: t, Rand: rand.New(rand.NewPCG(seed, 0)), claims: &learner{}, scope: scope,
		slices: map[string]*resourcev1.ResourceSlice{}, stored: map[string]*resourcev1.ResourceClaim{},
		versions: map[string][2]uint64{}, each: map[string][]string{}}
	w.cache = assumecache.NewAssumeCache(logr.Discard(), w.claims, "ResourceClaim", "", nil)
	w.n = &narrowable{SharedDRAManager: dynamicresources.NewDRAManager(t.Context(), w.cache, nil, scope),
		index: newIndex(true), cache: w.cache}
	w.cache.AddEventHandler(w.n.index.claimHandler())
	w.cache.AddEventHandler(w.n.arrivals.handler())
	w.handler = w.n.index.sliceHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { w.told++ },
		UpdateFunc: func(any, any) { w.told++ },
		DeleteFunc: func(any) { w.told++ },
	})
	return w
}

func (w *twin) node() string { return fmt.Sprint("n", w.IntN(numNodes)) }

// pool returns a pool: pools of two drivers share each name.
func (w *twin) pool() (driver, name string) {
	i := w.IntN(numPools)
	return fmt.Sprint("driver", i%2), fmt.Sprint("pool", i/2)
}

func (w *twin) newVersion() string {
	w.version++
	return strconv.Itoa(w.version)
}

func (w *twin) changeSlice() {
	name := fmt.Sprint("slice", w.IntN(numSlices))
	before := w.slices[name]
	w.told = 0
	if before != nil && w.IntN(2) == 0 {
		delete(w.slices, name)
		var gone any = before
		if w.IntN(2) == 0 {
			gone = toolscache.DeletedFinalStateUnknown{Key: name, Obj: before}
		}
		w.handler.OnDelete(gone)
	} else {
		slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: w.newVersion()}}
		slice.Spec.Driver, slice.Spec.Pool.Name = w.pool()
		slice.Spec.Pool.Generation = w.Int64N(2)
		for i := range numDevices {
			slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: fmt.Sprint("device", i)})
		}
		if w.IntN(4) > 0 {
			slice.Spec.NodeName = ptr.To(w.node())
		} else {
			slice.Spec.AllNodes = ptr.To(true)
		}
		w.slices[name] = slice
		if before == nil {
			w.handler.OnAdd(slice, false)
		} else {
			w.handler.OnUpdate(before, slice)
		}
	}
	if w.told != 1 {
		w.Errorf("%d events were passed on for one", w.told)
	}
}

// allocation returns an allocation of devices of some pools: dedicated, shared, and for
// administrators.
func (w *twin) allocation() *resourcev1.AllocationResult {
	a := &resourcev1.AllocationResult{}
	for range 1 + w.IntN(3) {
		result := resourcev1.DeviceRequestAllocationResult{Device: fmt.Sprint("device", w.IntN(numDevices))}
		result.Driver, result.Pool = w.pool()
		switch w.IntN(4) {
		case 0:
			result.AdminAccess = ptr.To(true)
		case 1:
			result.ShareID = ptr.To(types.UID(w.newVersion()))
		case 2:
			result.ShareID = ptr.To(types.UID(w.newVersion()))
			result.ConsumedCapacity = map[resourcev1.QualifiedName]resource.Quantity{
				"memory": *resource.NewQuantity(1+w.Int64N(9), resource.BinarySI)}
		}
		a.Devices.Results = append(a.Devices.Results, result)
	}
	return a
}

// write stores a claim in the API server, which informs the cache.
func (w *twin) write(claim *resourcev1.ResourceClaim) {
	before := w.stored[claim.Name]
	claim.ResourceVersion = w.newVersion()
	w.stored[claim.Name] = claim
	if before == nil {
		w.claims.OnAdd(claim, false)
	} else {
		w.claims.OnUpdate(before, claim)
	}
}

func (w *twin) changeClaim() {
	name := fmt.Sprint("claim", w.IntN(numClaims))
	claim := w.stored[name]
	tracker := w.n.ResourceClaims()
	switch op := w.IntN(9); {
	case claim == nil:
		uid := types.UID(name + w.newVersion())
		w.uids = append(w.uids, uid)
		claim = &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: uid}}
		if op == 0 {
			claim.Status.Allocation = w.allocation()
		}
		w.write(claim)
	case op < 2:
		delete(w.stored, name)
		w.claims.OnDelete(claim)
	case op < 3:
		changed := claim.DeepCopy()
		if changed.Status.Allocation != nil {
			changed.Status.Allocation = nil
		} else {
			changed.Status.Allocation = w.allocation()
		}
		w.write(changed)
	case op < 6: // a pod is assumed, maybe for a claim that is allocated, or pending for another pod
		allocated := claim.DeepCopy()
		allocated.Status.Allocation = w.allocation()
		if err := tracker.SignalClaimPendingAllocation(claim.UID, allocated); err != nil {
			w.Fatal(err)
		}
	case op < 7: // the informer was away
		changed := claim.DeepCopy()
		if w.IntN(2) == 0 {
			changed.UID = types.UID(name + w.newVersion())
			w.uids = append(w.uids, changed.UID)
		}
		changed.Status.Allocation = w.allocation()
		w.write(changed)
	case op < 8:
		tracker.MaybeRemoveClaimPendingAllocation(claim.UID, w.IntN(2) == 0)
	default: // PreBind has written the allocation, and the event comes later
		if pending := tracker.GetPendingAllocation(claim.UID); pending != nil && claim.Status.Allocation == nil {
			assumed := claim.DeepCopy()
			assumed.ResourceVersion = w.newVersion()
			assumed.Status.Allocation = pending
			if err := tracker.AssumeClaimAfterAPICall(assumed); err != nil {
				w.Fatal(err)
			}
			if w.IntN(2) == 0 {
				tracker.MaybeRemoveClaimPendingAllocation(claim.UID, true)
			}
			w.stored[name] = assumed
			if w.IntN(2) == 0 {
				w.claims.OnUpdate(claim, assumed)
			}
		}
	}
}

// wants returns what is there, of the pools with slices of the nodes and of no node. Without nodes,
// this is nothing.
func (w *twin) wants(nodes []string) ([]string, *structured.AllocatedState) {
	matter := map[poolKey]bool{}
	for _, slice := range w.slices {
		if len(nodes) > 0 && (slice.Spec.NodeName == nil || slices.Contains(nodes, *slice.Spec.NodeName)) {
			matter[keyOf(slice)] = true
		}
	}
	names := []string{}
	for _, slice := range w.slices {
		if matter[keyOf(slice)] {
			names = append(names, slice.Name+"@"+slice.ResourceVersion)
		}
	}
	slices.Sort(names)
	state := w.allocated()
	matters := func(id structured.DeviceID) bool { return matter[poolKey{id.Driver.String(), id.Pool.String()}] }
	for id := range state.AllocatedDevices {
		if !matters(id) {
			state.AllocatedDevices.Delete(id)
		}
	}
	for id := range state.AllocatedSharedDeviceIDs {
		if !matters(id.GetDeviceID()) {
			state.AllocatedSharedDeviceIDs.Delete(id)
		}
	}
	for id := range state.AggregatedCapacity {
		if !matters(id) {
			delete(state.AggregatedCapacity, id)
		}
	}
	return names, state
}

// allocated returns what is allocated, as Kubernetes' tracker says that knows only the present
// claims and pending allocations.
func (w *twin) allocated() *structured.AllocatedState {
	w.Helper()
	known, err := w.n.ResourceClaims().List()
	if err != nil {
		w.Fatal(err)
	}
	claims := &learner{}
	cache := assumecache.NewAssumeCache(logr.Discard(), claims, "ResourceClaim", "", nil)
	tracker := dynamicresources.NewDRAManager(w.Context(), cache, nil, w.scope).ResourceClaims()
	for i, uid := range w.uids {
		pending := w.n.ResourceClaims().GetPendingAllocation(uid)
		if pending == nil {
			continue
		}
		claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: fmt.Sprint(i), UID: uid,
			ResourceVersion: "1"}}
		claims.OnAdd(claim, false) // the tracker refuses what it does not know
		promised := claim.DeepCopy()
		promised.Status.Allocation = pending
		if err := tracker.SignalClaimPendingAllocation(uid, promised); err != nil {
			w.Fatal(err)
		}
	}
	for _, claim := range known {
		claims.OnAdd(claim, false)
	}
	state, err := tracker.GatherAllocatedState()
	if err != nil {
		w.Fatal(err)
	}
	return state
}

func (w *twin) check(nodes ...string) {
	w.Helper()
	m := &Managers{DRA: w.n, mayNarrow: true}
	want, wantState := w.wants(nodes)
	shared := 0
	for _, slice := range w.slices {
		if slice.Spec.NodeName == nil {
			shared++
		}
	}
	widen, ok := m.Narrow(nodes)
	if most := 2*shared > len(w.slices); ok == most {
		w.Fatalf("%d of %d slices are shared; narrowed: %v", shared, len(w.slices), ok)
	}
	if !ok {
		return
	}
	listed, err := m.DRA.ResourceSlices().ListWithDeviceTaintRules()
	if err != nil {
		w.Fatal(err)
	}
	got := []string{}
	for _, slice := range listed {
		got = append(got, slice.Name+"@"+slice.ResourceVersion)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		w.Fatalf("for %v: slices %v, want %v", nodes, got, want)
	}
	state, err := m.DRA.ResourceClaims().GatherAllocatedState()
	if err != nil || !equality.Semantic.DeepEqual(state, wantState) {
		w.Fatalf("for %v: %v are allocated, want %v (%v)", nodes, state, wantState, err)
	}
	devices, err := m.DRA.ResourceClaims().ListAllAllocatedDevices()
	if err != nil || !devices.Equal(wantState.AllocatedDevices) {
		w.Fatalf("for %v: %v are allocated, want %v (%v)", nodes, devices, wantState.AllocatedDevices, err)
	}
	widen()
	whole, err := m.DRA.ResourceClaims().GatherAllocatedState()
	if err != nil {
		w.Fatal(err)
	}
	if all := w.allocated(); !equality.Semantic.DeepEqual(whole, all) {
		w.Fatalf("widened again, %v are allocated, want %v", whole, all)
	}
	known, err := m.DRA.ResourceClaims().List()
	if err != nil {
		w.Fatal(err)
	}
	counts := Allocations{}
	for _, claim := range known {
		counts.Add(claim)
	}
	if got := m.Allocations(); !maps.Equal(got, counts) {
		w.Fatalf("claims have %v, want %v", got, counts)
	}
}

// follower returns a function that checks that ChangedNodes has each node for which something else
// is there than at its last call, while devices are separate.
func (w *twin) follower() func() {
	m := &Managers{DRA: w.n, mayNarrow: true}
	type known struct {
		slices []string
		state  *structured.AllocatedState
	}
	were, pos := map[string]known{}, uint64(0)
	return func() {
		shared := slices.ContainsFunc(slices.Collect(maps.Values(w.slices)),
			func(s *resourcev1.ResourceSlice) bool { return s.Spec.NodeName == nil })
		if m.SeparateDevices() == shared {
			w.Fatalf("shared slices: %v, and devices are separate: %v", shared, !shared)
		}
		changed, end, ok := m.ChangedNodes(pos)
		for i := range numNodes {
			node, now := fmt.Sprint("n", i), known{}
			now.slices, now.state = w.wants([]string{node})
			was := were[node]
			same := slices.Equal(was.slices, now.slices) && equality.Semantic.DeepEqual(was.state, now.state)
			if ok && !same && !shared && !slices.Contains(changed, node) {
				w.Fatalf("the changes of %v are not those of %s: %v, was %v", changed, node, now, was)
			}
			were[node] = now
		}
		pos = end
	}
}

// checkEach compares the devices of a node, one by one, with what is there.
func (w *twin) checkEach(node string) {
	w.Helper()
	newest := map[poolKey]int64{}
	for _, slice := range w.slices {
		newest[keyOf(slice)] = max(newest[keyOf(slice)], slice.Spec.Pool.Generation)
	}
	_, state := w.wants([]string{node})
	got, want, called := w.each[node], []string(nil), false
	version := w.n.EachDevice(node, w.versions[node], func(driver string, device *resourcev1.Device, allocated bool,
		consumed structured.ConsumedCapacity) {
		if !called {
			got, called = nil, true
		}
		got = append(got, fmt.Sprint(driver, " ", device.Name, " ", allocated, " ", consumed["memory"]))
	})
	if !called && version != w.versions[node] {
		got = nil
	}
	w.each[node], w.versions[node] = got, version
	names := slices.SortedFunc(maps.Values(w.slices), func(a, b *resourcev1.ResourceSlice) int {
		return cmp.Or(cmp.Compare(a.Spec.Driver, b.Spec.Driver), cmp.Compare(a.Spec.Pool.Name, b.Spec.Pool.Name),
			cmp.Compare(a.Name, b.Name))
	})
	for _, slice := range names {
		if ptr.Deref(slice.Spec.NodeName, "") != node || slice.Spec.Pool.Generation != newest[keyOf(slice)] {
			continue
		}
		for _, device := range slice.Spec.Devices {
			id := structured.MakeDeviceID(slice.Spec.Driver, slice.Spec.Pool.Name, device.Name)
			want = append(want, fmt.Sprint(slice.Spec.Driver, " ", device.Name, " ",
				state.AllocatedDevices.Has(id), " ", state.AggregatedCapacity[id]["memory"]))
		}
	}
	if !slices.Equal(got, want) {
		w.Fatalf("on %s there are %v, want %v", node, got, want)
	}
}

// TestNarrowedManagersBesideAllDevices compares, after each of many random operations, what
// narrowed managers list with what is there.
func TestNarrowedManagersBesideAllDevices(t *testing.T) {
	for seed := range uint64(3) {
		w := newTwin(t, seed)
		follow := w.follower()
		for range 400 {
			if w.IntN(3) == 0 {
				w.changeSlice()
			} else {
				w.changeClaim()
			}
			w.check()
			w.check(w.node())
			w.check(w.node(), w.node(), "unknown")
			follow()
			w.checkEach(w.node())
		}
		w.clear()
	}
}

// clear removes everything, and checks that nothing is left.
func (w *twin) clear() {
	for _, slice := range w.slices {
		w.handler.OnDelete(slice)
	}
	for _, claim := range w.stored {
		w.claims.OnDelete(claim)
	}
	for _, uid := range w.uids {
		w.n.ResourceClaims().MaybeRemoveClaimPendingAllocation(uid, true)
	}
	x := w.n.index
	if len(x.slices)+len(x.pools)+len(x.nodes)+len(x.shared)+len(x.pending)+len(x.sliceChanges)+x.sharedSlices > 0 ||
		!equality.Semantic.DeepEqual(x.allocated, newAllocatedState()) {
		w.Errorf("left are slices %v, pools %v, nodes %v, shared pools %v, pending claims %v, allocated %v", x.slices,
			x.pools, x.nodes, x.shared, x.pending, x.allocated)
	}
}

// TestPendingAllocationsOfTheTrackerAndTheIndex adds and removes pending allocations of one claim
// in many goroutines. Afterwards, tracker and index have the same one, or both none.
func TestPendingAllocationsOfTheTrackerAndTheIndex(t *testing.T) {
	w := newTwin(t, 1)
	w.write(&resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "claim", UID: "uid"}})
	tracker := w.n.ResourceClaims()
	for range 200 {
		var all sync.WaitGroup
		for range 4 {
			allocated := w.stored["claim"].DeepCopy()
			allocated.Status.Allocation = w.allocation()
			all.Go(func() {
				for range 3 {
					if err := tracker.SignalClaimPendingAllocation("uid", allocated); err != nil {
						t.Error(err)
					}
					tracker.MaybeRemoveClaimPendingAllocation("uid", true)
				}
				if err := tracker.SignalClaimPendingAllocation("uid", allocated); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		known, indexed := tracker.GetPendingAllocation("uid"), w.n.index.pending["uid"]
		if known == nil != (indexed == nil) || known != nil && known != indexed.Status.Allocation {
			t.Fatalf("the tracker has %v, the index %v", known, indexed)
		}
	}
}

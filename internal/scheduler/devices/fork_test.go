// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package devices_test

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes/fake"
	toolscache "k8s.io/client-go/tools/cache"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/informers/fixed"
	"github.com/livesched/livesched/internal/scheduler/devices"
)

// claimOf returns a claim. It is allocated if devices are named.
func claimOf(name string, named ...string) *resourcev1.ResourceClaim {
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
		UID: types.UID(name), ResourceVersion: "1"}}
	if len(named) > 0 {
		allocate(claim, named...)
	}
	return claim
}

func allocate(claim *resourcev1.ResourceClaim, named ...string) *resourcev1.ResourceClaim {
	claim.Status.Allocation = &resourcev1.AllocationResult{}
	results := &claim.Status.Allocation.Devices.Results
	for _, name := range named {
		*results = append(*results,
			resourcev1.DeviceRequestAllocationResult{Driver: "driver", Pool: "pool", Device: name})
	}
	return claim
}

// share makes a claim take a share of a device.
func share(claim *resourcev1.ResourceClaim, device, gigabytes string) *resourcev1.ResourceClaim {
	allocate(claim, device)
	result := &claim.Status.Allocation.Devices.Results[0]
	result.ShareID = ptr.To(claim.UID)
	result.ConsumedCapacity = map[resourcev1.QualifiedName]resource.Quantity{"memory": resource.MustParse(gigabytes)}
	return claim
}

// managed are the managers of a process that has claims "free", "waiting" and "taken", the last
// with device "taken", claims "choice" and "exact" with and without alternatives, and a class that
// backs a resource.
type managed struct {
	*testing.T
	source  *informers.Source
	process *devices.Managers
}

const backed corev1.ResourceName = "example.com/gpu"

func newManaged(t *testing.T, more ...client.Object) *managed {
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpus"},
		Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: ptr.To(string(backed))}}
	choice := claimOf("choice")
	choice.Spec.Devices.Requests = []resourcev1.DeviceRequest{
		{Name: "one", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpus"}},
		{Name: "other", FirstAvailable: []resourcev1.DeviceSubRequest{{Name: "large"}, {Name: "small"}}},
	}
	taken := claimOf("taken", "taken")
	taken.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", UID: "first"},
		{Resource: "pods", UID: "second"}}
	exact := claimOf("exact")
	exact.Spec.Devices.Requests = choice.Spec.Devices.Requests[:1]
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "node"}, Spec: resourcev1.ResourceSliceSpec{
		Driver: "driver", NodeName: ptr.To("node"), Pool: resourcev1.ResourcePool{Name: "pool", ResourceSliceCount: 1},
		Devices: []resourcev1.Device{{Name: "shared", AllowMultipleAllocations: ptr.To(true)}}}}
	source, err := fixed.NewSource(append(more, slice, claimOf("free"), claimOf("waiting"), taken, choice, exact,
		class))
	m := &managed{T: t, source: source}
	m.must(err)
	scope := source.NewScope()
	t.Cleanup(scope.Close)
	m.process, err = devices.NewManagers(t.Context(), fake.NewClientset(), scope)
	m.must(err)
	m.must(m.process.AddEventHandlers(func(fwk.EventResource) toolscache.ResourceEventHandler {
		return toolscache.ResourceEventHandlerFuncs{}
	}))
	m.must(scope.WaitForSync(t.Context()))
	m.must(wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) {
			return m.process.ClassChanges() > 0 && slices.Contains(m.allocated(m.process), "taken") &&
				m.sharedMemory(m.process.DRA.(eachDevice)) != "", nil
		}))
	return m
}

func (m *managed) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

func (m *managed) fork() *devices.Managers {
	m.Helper()
	scope := m.source.NewScope()
	m.Cleanup(scope.Close)
	return m.process.Fork(m.Context(), scope)
}

// allocated returns the devices that are allocated, by both ways to ask.
func (m *managed) allocated(d *devices.Managers) (names []string) {
	m.Helper()
	all, err := d.DRA.ResourceClaims().ListAllAllocatedDevices()
	m.must(err)
	state, err := d.DRA.ResourceClaims().GatherAllocatedState()
	m.must(err)
	if !all.Equal(state.AllocatedDevices) {
		m.Errorf("%v and %v are allocated", all, state.AllocatedDevices)
	}
	for id := range all {
		names = append(names, id.Device.String())
	}
	slices.Sort(names)
	return names
}

func (m *managed) expect(what string, d *devices.Managers, want ...string) {
	m.Helper()
	if got := m.allocated(d); !slices.Equal(got, want) {
		m.Errorf("%s: %v are allocated, want %v", what, got, want)
	}
}

func TestForkAddsNoHandlers(t *testing.T) {
	m := newManaged(t)
	before := m.source.Handlers()
	f := m.fork()
	if n := m.source.Handlers(); n != before {
		t.Errorf("the fork adds %d handlers", n-before)
	}
	if !f.Backs(backed) || f.ClassChanges() != m.process.ClassChanges() {
		t.Error("the fork does not know the device classes")
	}
}

// TestForkAllocates lets a fork allocate claims, which changes nothing in the process.
func TestForkAllocates(t *testing.T) {
	m := newManaged(t)
	f, other := m.fork(), m.fork()
	claims := f.DRA.ResourceClaims()
	free := allocate(claimOf("free"), "free")
	m.must(claims.SignalClaimPendingAllocation("free", free))
	m.must(claims.SignalClaimPendingAllocation("free", free)) // another pod of the group
	m.expect("the fork", f, "free", "taken")
	m.expect("another fork", other, "taken")
	m.expect("the process", m.process, "taken")
	if claims.GetPendingAllocation("free") == nil ||
		m.process.DRA.ResourceClaims().GetPendingAllocation("free") != nil {
		t.Error("the allocation is not pending in the fork, or is in the process")
	}
	if claims.MaybeRemoveClaimPendingAllocation("free", false) {
		t.Error("the allocation is gone although a pod uses it")
	}
	if !claims.MaybeRemoveClaimPendingAllocation("free", false) {
		t.Error("the allocation stays although no pod uses it")
	}
	claims.AssumedClaimRestore("default", "free")
	m.expect("the fork in the end", f, "taken")
	if err := claims.SignalClaimPendingAllocation("gone", allocate(claimOf("gone"), "gone")); err == nil {
		t.Error("a claim that does not exist was allocated")
	}
	m.must(claims.SignalClaimPendingAllocation("taken", allocate(claimOf("taken"), "another")))
	m.expect("the fork, for a claim that has a device", f, "taken")
}

// TestForkSeesWhatIsPending has allocations in the process that no claim shows yet, from before and
// after the fork was made.
func TestForkSeesWhatIsPending(t *testing.T) {
	m := newManaged(t)
	process := m.process.DRA.ResourceClaims()
	m.must(process.SignalClaimPendingAllocation("waiting", allocate(claimOf("waiting"), "before")))
	f := m.fork()
	claims := f.DRA.ResourceClaims()
	m.expect("a pending allocation", f, "before", "taken")
	if claims.GetPendingAllocation("waiting") == nil {
		t.Error("the allocation is not pending in the fork")
	}
	m.must(claims.SignalClaimPendingAllocation("waiting", allocate(claimOf("waiting"), "another")))
	if claims.MaybeRemoveClaimPendingAllocation("waiting", false) {
		t.Error("the fork has removed an allocation of the process")
	}
	m.expect("the process", m.process, "before", "taken")
	m.must(process.SignalClaimPendingAllocation("free", allocate(claimOf("free"), "after")))
	m.expect("one that came later", f, "after", "before", "taken")
	assumed := allocate(claimOf("free"), "after")
	assumed.ResourceVersion = "2"
	m.must(process.AssumeClaimAfterAPICall(assumed))
	process.MaybeRemoveClaimPendingAllocation("free", true)
	if claim, err := claims.Get("default", "free"); err != nil || claim.Status.Allocation == nil {
		t.Errorf("the fork does not see an assumed claim: %v", err)
	}
	m.expect("an assumed claim", f, "after", "before", "taken")
	if claims.AssumeClaimAfterAPICall(assumed) == nil {
		t.Error("a fork has assumed a claim")
	}
}

// TestForkAddsUpCapacities has claims that share a device.
func TestForkAddsUpCapacities(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.DRAConsumableCapacity, true)
	m := newManaged(t)
	process := m.process.DRA.ResourceClaims()
	m.must(process.SignalClaimPendingAllocation("waiting", share(claimOf("waiting"), "shared", "2Gi")))
	f := m.fork()
	claims := f.DRA.ResourceClaims()
	m.must(claims.SignalClaimPendingAllocation("free", share(claimOf("free"), "shared", "3Gi")))
	for _, test := range []struct {
		of     string
		d      *devices.Managers
		memory string
		shares int
	}{{"the fork", f, "5Gi", 2}, {"the process", m.process, "2Gi", 1}} {
		if each := test.d.DRA.(eachDevice); m.sharedMemory(each) != test.memory {
			t.Errorf("%s: device by device, %s of the memory is taken, want %s", test.of, m.sharedMemory(each),
				test.memory)
		}
		state, err := test.d.DRA.ResourceClaims().GatherAllocatedState()
		m.must(err)
		memory := state.AggregatedCapacity[structured.MakeDeviceID("driver", "pool", "shared")]["memory"]
		if memory == nil || memory.Cmp(resource.MustParse(test.memory)) != 0 ||
			state.AllocatedSharedDeviceIDs.Len() != test.shares {
			t.Errorf("%s: %v of the memory is taken, in %d shares, want %s in %d", test.of, memory,
				state.AllocatedSharedDeviceIDs.Len(), test.memory, test.shares)
		}
	}
	before := m.version(f)
	claims.MaybeRemoveClaimPendingAllocation("free", true)
	if m.version(f) == before {
		t.Error("the version of the devices does not change in the fork")
	}
	if got := m.sharedMemory(f.DRA.(eachDevice)); got != "2Gi" {
		t.Errorf("%s of the memory is taken in the fork after its claim is released, want 2Gi", got)
	}
}

// eachDevice lists the devices of a node.
type eachDevice interface {
	EachDevice(string, [2]uint64, func(string, *resourcev1.Device, bool, structured.ConsumedCapacity)) [2]uint64
}

func (m *managed) version(of *devices.Managers) [2]uint64 {
	return of.DRA.(eachDevice).EachDevice("node", [2]uint64{},
		func(string, *resourcev1.Device, bool, structured.ConsumedCapacity) {})
}

// sharedMemory returns how much of the memory of the device on the node is taken.
func (m *managed) sharedMemory(of eachDevice) (memory string) {
	of.EachDevice("node", [2]uint64{}, func(_ string, _ *resourcev1.Device, _ bool,
		consumed structured.ConsumedCapacity) {
		memory = consumed["memory"].String()
	})
	return memory
}

func TestDevicesOfEndedPodsAreFreeInAFork(t *testing.T) {
	m := newManaged(t)
	fork := m.fork()
	free := func(pods ...types.UID) (restore func()) {
		restore, err := fork.Free(sets.New(pods...).Has)
		m.must(err)
		return restore
	}
	restore := free("first")
	m.expect("another pod has the claim", fork, "taken")
	restore()
	restore = free("first", "second")
	m.expect("no other pod has the claim", fork)
	free("first", "second", "third")()
	m.expect("a nested call has ended", fork)
	m.expect("the process", m.process, "taken")
	m.must(fork.DRA.ResourceClaims().SignalClaimPendingAllocation("free", claimOf("free", "taken")))
	m.expect("the device is allocated again", fork, "taken")
	restore()
	fork.DRA.ResourceClaims().MaybeRemoveClaimPendingAllocation("free", true)
	m.expect("all is as before", fork, "taken")
}

func TestCapacityOfEndedPodsIsFreeInAFork(t *testing.T) {
	shared := share(claimOf("shared"), "device", "50Gi")
	shared.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", UID: "pod"}}
	m := newManaged(t, shared)
	fork := m.fork()
	consumed := func() int {
		state, err := fork.DRA.ResourceClaims().GatherAllocatedState()
		m.must(err)
		return len(state.AggregatedCapacity) + len(state.AllocatedSharedDeviceIDs)
	}
	m.must(wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) { return consumed() == 2, nil })) // the share and its capacity
	restore, err := fork.Free(sets.New[types.UID]("pod").Has)
	m.must(err)
	if got := consumed(); got != 0 {
		t.Errorf("%d are left of a share and its capacity", got)
	}
	restore()
}

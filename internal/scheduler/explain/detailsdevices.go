// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
)

// claimElsewhere is the message of DynamicResources about a claim that is allocated.
const claimElsewhere = "resourceclaim not available on the node"

// deviceState is why a device that matches a request cannot be allocated for it, or free.
type deviceState int

const (
	deviceFree deviceState = iota
	deviceInUse
	deviceCrowded
	deviceTainted
	deviceTooSmall
	numDeviceStates
)

// deviceStates are the states in words.
var deviceStates = [numDeviceStates]string{"free", "in use", "with too little capacity left", "tainted", "too small"}

// deviceDetails describes why the claims of a pod get no devices.
type deviceDetails struct {
	// elsewhere are the names of the claims that are allocated.
	elsewhere []string
	requests  []deviceRequest
	// ofNode are the slices by node, and others those of no single node.
	ofNode map[string][]*resourcev1.ResourceSlice
	others []*resourcev1.ResourceSlice
	// selectors are the node selectors of slices that have one.
	selectors map[*corev1.NodeSelector]*nodeaffinity.NodeSelector
	allocated *structured.AllocatedState
	// lacks are the results of lacking, by the name of the node.
	lacks map[string]deviceLack
}

// deviceLack is a request for which too few devices are free on a node, with those of the node.
type deviceLack struct {
	*deviceRequest
	deviceTally
}

// deviceRequest is a request of a claim that is not allocated.
type deviceRequest struct {
	*resourcev1.ExactDeviceRequest
	claim string
	// wanted is the number of devices, 0 for all of a pool.
	wanted int64
	// ofClass and own are the selectors of the class and of the request.
	ofClass, own []cel.CompilationResult
	// known has what the request makes of the devices of each slice.
	known map[*resourcev1.ResourceSlice][]judgedDevice
}

// judgedDevice is a device as a request sees it. state is set if it matches.
type judgedDevice struct {
	ofClass, matches bool
	state            deviceState
}

// maxDeviceSelectors bounds the expressions that are compiled for one explanation.
const maxDeviceSelectors = 64

// readDevices reads what the claims of the pod ask for, and the devices that there are. What cannot
// be described is left out.
func (d *details) readDevices() *deviceDetails {
	if d.devices != nil {
		return d.devices
	}
	d.devices = &deviceDetails{selectors: map[*corev1.NodeSelector]*nodeaffinity.NodeSelector{},
		ofNode: map[string][]*resourcev1.ResourceSlice{}, lacks: map[string]deviceLack{}}
	managers := d.fork.Devices()
	claims, known := managers.ClaimsOf(d.pod)
	if !known || managers.DRA == nil {
		return d.devices
	}
	all, err := managers.DRA.ResourceSlices().ListWithDeviceTaintRules()
	allocated, failed := gatherAllocated(managers.DRA.ResourceClaims())
	if err != nil || failed != nil {
		return d.devices
	}
	d.devices.allocated = allocated
	for _, slice := range newestSlices(all) {
		if name := ptr.Deref(slice.Spec.NodeName, ""); name != "" {
			d.devices.ofNode[name] = append(d.devices.ofNode[name], slice)
		} else {
			d.devices.others = append(d.devices.others, slice)
		}
	}
	compiled := cel.NewCache(maxDeviceSelectors, cel.Features{
		EnableConsumableCapacity: utilfeature.DefaultFeatureGate.Enabled(features.DRAConsumableCapacity),
		EnableListTypeAttributes: utilfeature.DefaultFeatureGate.Enabled(features.DRAListTypeAttributes),
	})
	for _, claim := range claims {
		if claim.Status.Allocation != nil {
			d.devices.elsewhere = append(d.devices.elsewhere, claim.Name)
			continue
		}
		for i := range claim.Spec.Devices.Requests {
			exactly := claim.Spec.Devices.Requests[i].Exactly
			if exactly == nil {
				continue // one of several requests would do
			}
			class, err := managers.DRA.DeviceClasses().Get(exactly.DeviceClassName)
			if err != nil {
				continue // another detail says so
			}
			request := deviceRequest{ExactDeviceRequest: exactly, claim: claim.Name,
				known: map[*resourcev1.ResourceSlice][]judgedDevice{}}
			if exactly.AllocationMode != resourcev1.DeviceAllocationModeAll {
				request.wanted = max(1, exactly.Count)
			}
			request.ofClass, request.own = compile(compiled, class.Spec.Selectors), compile(compiled, exactly.Selectors)
			d.devices.requests = append(d.devices.requests, request)
		}
	}
	return d.devices
}

// maxGathers is how often it is tried to read what is allocated. The attempt fails if claims change
// meanwhile.
const maxGathers = 10

func gatherAllocated(claims fwk.ResourceClaimTracker) (state *structured.AllocatedState, err error) {
	for range maxGathers {
		if state, err = claims.GatherAllocatedState(); err == nil {
			return state, nil
		}
	}
	return nil, err
}

// newestSlices returns the slices that are of the newest generation of their pool.
func newestSlices(all []*resourcev1.ResourceSlice) []*resourcev1.ResourceSlice {
	type pool struct{ driver, name string }
	newest := map[pool]int64{}
	of := func(s *resourcev1.ResourceSlice) pool { return pool{s.Spec.Driver, s.Spec.Pool.Name} }
	for _, slice := range all {
		newest[of(slice)] = max(newest[of(slice)], slice.Spec.Pool.Generation)
	}
	return slices.DeleteFunc(slices.Clone(all),
		func(s *resourcev1.ResourceSlice) bool { return s.Spec.Pool.Generation < newest[of(s)] })
}

func compile(cache *cel.Cache, selectors []resourcev1.DeviceSelector) (all []cel.CompilationResult) {
	for i := range selectors {
		if selectors[i].CEL != nil {
			all = append(all, cache.GetOrCompile(selectors[i].CEL.Expression))
		}
	}
	return all
}

// meets reports whether a device meets all selectors.
func meets(selectors []cel.CompilationResult, driver string, device *resourcev1.Device) bool {
	input := cel.Device{Driver: driver, AllowMultipleAllocations: device.AllowMultipleAllocations,
		Attributes: device.Attributes, Capacity: device.Capacity}
	return !slices.ContainsFunc(selectors, func(selector cel.CompilationResult) bool {
		if selector.Error != nil {
			return true
		}
		// The cost of an expression is limited.
		matches, _, err := selector.DeviceMatches(context.Background(), input)
		return err != nil || !matches
	})
}

// deviceTally counts the devices that some nodes reach.
type deviceTally struct {
	// ofClass is the number of devices of the class, states those that also meet the selectors of
	// the request, by state.
	ofClass int
	states  [numDeviceStates]int
}

func (t *deviceTally) matching() (n int) {
	for _, count := range t.states {
		n += count
	}
	return n
}

// lacks reports whether too few devices are free for a request.
func (t *deviceTally) lacks(r *deviceRequest) bool {
	if r.wanted == 0 {
		return t.matching() == 0 || t.states[deviceFree] < t.matching()
	}
	return int64(t.states[deviceFree]) < r.wanted
}

// tally counts the devices that the nodes reach, each once.
func (d *deviceDetails) tally(r *deviceRequest, nodes ...*corev1.Node) (t deviceTally) {
	for _, node := range nodes {
		for _, slice := range d.ofNode[node.Name] {
			for _, device := range d.judge(r, slice) {
				t.count(device)
			}
		}
	}
	for _, slice := range d.others {
		for i, device := range d.judge(r, slice) {
			of := &slice.Spec.Devices[i]
			if device.ofClass && slices.ContainsFunc(nodes,
				func(node *corev1.Node) bool { return d.reaches(node, slice, of) }) {
				t.count(device)
			}
		}
	}
	return t
}

// judge returns what a request makes of the devices of a slice.
func (d *deviceDetails) judge(r *deviceRequest, slice *resourcev1.ResourceSlice) []judgedDevice {
	judged, ok := r.known[slice]
	if ok {
		return judged
	}
	judged = make([]judgedDevice, len(slice.Spec.Devices))
	for i := range judged {
		device, j := &slice.Spec.Devices[i], &judged[i]
		j.ofClass = meets(r.ofClass, slice.Spec.Driver, device)
		j.matches = j.ofClass && meets(r.own, slice.Spec.Driver, device)
		if j.matches {
			j.state = d.stateOf(r, slice, device)
		}
	}
	r.known[slice] = judged
	return judged
}

// count adds a device to a tally.
func (t *deviceTally) count(device judgedDevice) {
	if device.ofClass {
		t.ofClass++
	}
	if device.matches {
		t.states[device.state]++
	}
}

// reaches reports whether a node reaches a device of a slice of no single node.
func (d *deviceDetails) reaches(node *corev1.Node, slice *resourcev1.ResourceSlice, device *resourcev1.Device) bool {
	name, selector, all := slice.Spec.NodeName, slice.Spec.NodeSelector, slice.Spec.AllNodes
	if ptr.Deref(slice.Spec.PerDeviceNodeSelection, false) {
		name, selector, all = device.NodeName, device.NodeSelector, device.AllNodes
	}
	switch {
	case name != nil:
		return *name == node.Name
	case selector != nil:
		parsed, ok := d.selectors[selector]
		if !ok {
			parsed, _ = nodeaffinity.NewNodeSelector(selector)
			d.selectors[selector] = parsed
		}
		return parsed != nil && parsed.Match(node)
	}
	return ptr.Deref(all, false)
}

// stateOf returns the state of a device that matches a request.
func (d *deviceDetails) stateOf(r *deviceRequest, slice *resourcev1.ResourceSlice,
	device *resourcev1.Device) deviceState {
	id := structured.MakeDeviceID(slice.Spec.Driver, slice.Spec.Pool.Name, device.Name)
	switch {
	case ptr.Deref(r.AdminAccess, false):
		return deviceFree
	case d.allocated.AllocatedDevices.Has(id):
		return deviceInUse
	case slices.ContainsFunc(device.Taints, r.isRepelledBy):
		return deviceTainted
	case !ptr.Deref(device.AllowMultipleAllocations, false):
		return deviceFree
	case !r.fitsBeside(nil, device):
		return deviceTooSmall
	case !r.fitsBeside(d.allocated.AggregatedCapacity[id], device):
		return deviceCrowded
	}
	return deviceFree
}

func (r *deviceRequest) isRepelledBy(taint resourcev1.DeviceTaint) bool {
	return taint.Effect != resourcev1.DeviceTaintEffectNone && !slices.ContainsFunc(r.Tolerations,
		func(t resourcev1.DeviceToleration) bool { return resourceclaim.ToleratesTaint(t, taint) })
}

// fitsBeside reports whether a device that claims share has the capacity for the request beside
// what they consume. The counterpart is CmpRequestOverCapacity in consumable_capacity.go of
// k8s.io/dynamic-resource-allocation.
func (r *deviceRequest) fitsBeside(consumed structured.ConsumedCapacity, device *resourcev1.Device) bool {
	var requests map[resourcev1.QualifiedName]resource.Quantity
	if r.Capacity != nil {
		requests = r.Capacity.Requests
	}
	for name := range requests {
		if _, ok := device.Capacity[name]; !ok {
			return false
		}
	}
	for name, capacity := range device.Capacity {
		left := capacity.Value.DeepCopy()
		if used := consumed[name]; used != nil {
			left.Sub(*used)
		}
		requested, named := requests[name]
		consumes := capacity.Value
		switch policy := capacity.RequestPolicy; {
		case named:
			consumes = roundUp(requested, policy)
		case policy != nil && policy.Default != nil:
			consumes = *policy.Default
		}
		if left.Cmp(consumes) < 0 {
			return false
		}
	}
	return true
}

// roundUp returns what a request for a capacity consumes: the least amount that the policy allows.
func roundUp(requested resource.Quantity, policy *resourcev1.CapacityRequestPolicy) resource.Quantity {
	switch {
	case policy == nil:
	case policy.ValidRange != nil && policy.ValidRange.Min != nil:
		least, step := *policy.ValidRange.Min, policy.ValidRange.Step
		if requested.Cmp(least) <= 0 {
			return least
		}
		if step != nil && step.Value() > 0 {
			steps := (requested.Value() - least.Value() + step.Value() - 1) / step.Value()
			return *resource.NewQuantity(least.Value()+steps*step.Value(), requested.Format)
		}
	default:
		for _, value := range policy.ValidValues { // in ascending order
			if requested.Cmp(value) <= 0 {
				return value
			}
		}
	}
	return requested
}

// lacking returns the first request for which too few devices are free on a node, without a request
// if there are enough for each by itself.
func (d *deviceDetails) lacking(node *corev1.Node) deviceLack {
	if known, ok := d.lacks[node.Name]; ok {
		return known
	}
	var found deviceLack
	for i := range d.requests {
		if t := d.tally(&d.requests[i], node); t.lacks(&d.requests[i]) {
			found = deviceLack{&d.requests[i], t}
			break
		}
	}
	d.lacks[node.Name] = found
	return found
}

// withDevicesToFree returns the refusals of a node. If the pod might get devices there when other
// pods end, they say so: DynamicResources does not, because preemption frees no devices.
func (d *details) withDevicesToFree(node *corev1.Node, refusals []*fwk.Status) []*fwk.Status {
	for i, s := range refusals {
		if s.Plugin() != names.DynamicResources || d.reasons.of(s) != v1alpha1.ReasonDeviceNotAvailable ||
			slices.Contains(s.Reasons(), claimElsewhere) {
			continue
		}
		l := d.readDevices().lacking(node)
		if l.deviceRequest == nil || !l.mayBeFreed(l.deviceRequest) {
			continue
		}
		refusals = slices.Clone(refusals)
		refusals[i] = fwk.NewStatus(fwk.Unschedulable, s.Reasons()...).WithPlugin(s.Plugin())
	}
	return refusals
}

// mayBeFreed reports whether enough devices are there for a request, although other pods have some
// of them.
func (t *deviceTally) mayBeFreed(r *deviceRequest) bool {
	most := t.matching() - t.states[deviceTainted] - t.states[deviceTooSmall]
	if r.wanted == 0 {
		return most > 0 && most == t.matching()
	}
	return int64(most) >= r.wanted
}

// deviceKey identifies what keeps the claims of the pod from getting devices on a node.
func (d *details) deviceKey(node *corev1.Node, status *fwk.Status) string {
	if slices.Contains(status.Reasons(), claimElsewhere) {
		return ""
	}
	l := d.readDevices().lacking(node)
	if l.deviceRequest == nil {
		return ""
	}
	key := fmt.Sprint(l.claim, " ", l.DeviceClassName, " ", l.deviceTally.ofClass > 0)
	for _, n := range l.states {
		key += fmt.Sprint(" ", n > 0)
	}
	return key
}

// deviceText describes what keeps the claims of the pod from getting devices on nodes with equal
// keys.
func (d *details) deviceText(nodes []*refusedNode, status *fwk.Status) string {
	read := d.readDevices()
	if slices.Contains(status.Reasons(), claimElsewhere) {
		if len(read.elsewhere) == 0 {
			return ""
		}
		return stateText("the ResourceClaim", read.elsewhere, "allocated to devices that these nodes cannot use")
	}
	r := read.lacking(nodes[0].Node()).deviceRequest
	if r == nil {
		return ""
	}
	all := make([]*corev1.Node, len(nodes))
	for i, n := range nodes {
		all[i] = n.Node()
	}
	t := read.tally(r, all...)
	class := "device of the DeviceClass " + r.DeviceClassName
	switch {
	case t.ofClass == 0:
		return "no " + class
	case t.matching() == 0:
		return fmt.Sprintf("no %s meets the selectors of the ResourceClaim %s", class, r.claim)
	}
	text := "no free " + class
	if r.wanted != 1 {
		text = fmt.Sprintf("fewer than %d free devices of the DeviceClass %s on a node", r.wanted, r.DeviceClassName)
	}
	if r.wanted == 0 {
		text = fmt.Sprintf("not all devices of the DeviceClass %s are free", r.DeviceClassName)
	}
	var counts []string
	for _, state := range []deviceState{deviceInUse, deviceTainted, deviceCrowded, deviceTooSmall, deviceFree} {
		if n := t.states[state]; n > 0 {
			counts = append(counts, fmt.Sprint(n, " ", deviceStates[state]))
		}
	}
	return text + ": " + strings.Join(counts, ", ")
}

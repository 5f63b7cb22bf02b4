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
	deviceTainted
	deviceTooSmall
	numDeviceStates
)

// deviceStates are the states in words.
var deviceStates = [numDeviceStates]string{"free", "in use", "tainted", "with too little capacity left"}

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
}

// deviceRequest is a request of a claim that is not allocated.
type deviceRequest struct {
	*resourcev1.ExactDeviceRequest
	claim string
	// wanted is the number of devices, 0 for all of a pool.
	wanted int64
	// ofClass and own are the selectors of the class and of the request.
	ofClass, own []cel.CompilationResult
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
		ofNode: map[string][]*resourcev1.ResourceSlice{}}
	managers := d.fork.Devices()
	claims, known := managers.ClaimsOf(d.pod)
	if !known || managers.DRA == nil {
		return d.devices
	}
	all, err := managers.DRA.ResourceSlices().ListWithDeviceTaintRules()
	allocated, failed := managers.DRA.ResourceClaims().GatherAllocatedState()
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
			request := deviceRequest{ExactDeviceRequest: exactly, claim: claim.Name}
			if exactly.AllocationMode != resourcev1.DeviceAllocationModeAll {
				request.wanted = max(1, exactly.Count)
			}
			request.ofClass, request.own = compile(compiled, class.Spec.Selectors), compile(compiled, exactly.Selectors)
			d.devices.requests = append(d.devices.requests, request)
		}
	}
	return d.devices
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
			for i := range slice.Spec.Devices {
				d.count(&t, r, slice, &slice.Spec.Devices[i])
			}
		}
	}
	for _, slice := range d.others {
		for i := range slice.Spec.Devices {
			device := &slice.Spec.Devices[i]
			if slices.ContainsFunc(nodes, func(node *corev1.Node) bool { return d.reaches(node, slice, device) }) {
				d.count(&t, r, slice, device)
			}
		}
	}
	return t
}

// count adds a device to a tally.
func (d *deviceDetails) count(t *deviceTally, r *deviceRequest, slice *resourcev1.ResourceSlice,
	device *resourcev1.Device) {
	if !meets(r.ofClass, slice.Spec.Driver, device) {
		return
	}
	t.ofClass++
	if meets(r.own, slice.Spec.Driver, device) {
		t.states[d.stateOf(r, slice, device)]++
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
			parsed, _ = nodeaffinity.NewNodeSelector(&corev1.NodeSelector{NodeSelectorTerms: selector.NodeSelectorTerms})
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
	case ptr.Deref(device.AllowMultipleAllocations, false) && d.isTooSmall(r, id, device):
		return deviceTooSmall
	}
	return deviceFree
}

func (r *deviceRequest) isRepelledBy(taint resourcev1.DeviceTaint) bool {
	return taint.Effect != resourcev1.DeviceTaintEffectNone && !slices.ContainsFunc(r.Tolerations,
		func(t resourcev1.DeviceToleration) bool { return resourceclaim.ToleratesTaint(t, taint) })
}

// isTooSmall reports whether less of a capacity is left of a device than the request names.
func (d *deviceDetails) isTooSmall(r *deviceRequest, id structured.DeviceID, device *resourcev1.Device) bool {
	if r.Capacity == nil {
		return false
	}
	consumed := d.allocated.AggregatedCapacity[id]
	for name, wanted := range r.Capacity.Requests {
		left := device.Capacity[name].Value.DeepCopy()
		if used := consumed[name]; used != nil {
			left.Sub(*used)
		}
		if left.Cmp(wanted) < 0 {
			return true
		}
	}
	return false
}

// lacking returns the first request for which too few devices are free on a node, nil if there are
// enough for each by itself.
func (d *deviceDetails) lacking(node *corev1.Node) (*deviceRequest, deviceTally) {
	for i := range d.requests {
		r := &d.requests[i]
		if t := d.tally(r, node); t.lacks(r) {
			return r, t
		}
	}
	return nil, deviceTally{}
}

// withDevicesToFree returns the refusals of a node. If the pod might get devices there when other
// pods end, they say so: DynamicResources does not, because preemption frees no devices.
func (d *details) withDevicesToFree(node *corev1.Node, refusals []*fwk.Status) []*fwk.Status {
	for i, s := range refusals {
		if s.Plugin() != names.DynamicResources || d.reasons.of(s) != v1alpha1.ReasonDeviceNotAvailable ||
			slices.Contains(s.Reasons(), claimElsewhere) {
			continue
		}
		r, t := d.readDevices().lacking(node)
		if r == nil || !t.mayBeFreed(r) {
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
	most := t.matching() - t.states[deviceTainted]
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
	r, t := d.readDevices().lacking(node)
	if r == nil {
		return ""
	}
	key := fmt.Sprint(r.claim, " ", r.DeviceClassName, " ", t.ofClass > 0)
	for state := range t.states {
		key += fmt.Sprint(" ", t.states[state] > 0)
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
	r, _ := read.lacking(nodes[0].Node())
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
	for _, state := range []deviceState{deviceInUse, deviceTainted, deviceTooSmall, deviceFree} {
		if n := t.states[state]; n > 0 {
			counts = append(counts, fmt.Sprint(n, " ", deviceStates[state]))
		}
	}
	return text + ": " + strings.Join(counts, ", ")
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package gpufragmentation

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"
)

// manager has the devices of nodes, and claims.
type manager struct {
	fwk.SharedDRAManager
	fwk.ResourceClaimTracker
	devices map[string][]*resourcev1.Device // by node
	taken   map[string]structured.ConsumedCapacity
	whole   map[string]bool // devices that a claim has for itself
	claims  map[string]*resourcev1.ResourceClaim
	version uint64
	reads   int
}

func (m *manager) ResourceClaims() fwk.ResourceClaimTracker { return m }

func (m *manager) Get(_, name string) (*resourcev1.ResourceClaim, error) {
	if claim := m.claims[name]; claim != nil {
		return claim, nil
	}
	return nil, errors.New("not found")
}

func (m *manager) GetPendingAllocation(uid types.UID) *resourcev1.AllocationResult {
	if uid == "pending" {
		return &resourcev1.AllocationResult{}
	}
	return nil
}

func (m *manager) EachDevice(node string, known [2]uint64,
	do func(string, *resourcev1.Device, bool, structured.ConsumedCapacity)) [2]uint64 {
	if len(m.devices[node]) == 0 {
		return [2]uint64{}
	}
	version := [2]uint64{m.version}
	if known == version {
		return version
	}
	m.reads++
	for _, device := range m.devices[node] {
		do("gpu.example.com", device, m.whole[device.Name], m.taken[device.Name])
	}
	do("nic.example.com", &resourcev1.Device{Name: "nic"}, false, nil)
	return version
}

// handle is the handle of the plugin. Without a manager, dynamic resource allocation is off.
type handle struct {
	fwk.Handle
	manager fwk.SharedDRAManager
}

func (h handle) SharedDRAManager() fwk.SharedDRAManager { return h.manager }

func newMostAllocated(t *testing.T, args string, manager fwk.SharedDRAManager) fwk.ScorePlugin {
	t.Helper()
	pl, err := NewMostAllocated(t.Context(), &runtime.Unknown{Raw: []byte(args)}, handle{manager: manager})
	if err != nil {
		t.Fatal(err)
	}
	return pl.(fwk.ScorePlugin)
}

func newPlugin(t *testing.T, args string, manager fwk.SharedDRAManager) *GPUFragmentation {
	t.Helper()
	pl, err := New(t.Context(), &runtime.Unknown{Raw: []byte(args)}, handle{manager: manager})
	if err != nil {
		t.Fatal(err)
	}
	return pl.(*GPUFragmentation)
}

func newDevice(name, model string) *resourcev1.Device {
	return &resourcev1.Device{Name: name, AllowMultipleAllocations: ptr.To(true),
		Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
			"gpu.example.com/model": {StringValue: ptr.To(model)}},
		Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse("80Gi")}}}
}

func newClaim(requests ...resourcev1.DeviceRequest) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{UID: "uid"},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: requests}}}
}

func ofMemory(quantity string) *resourcev1.CapacityRequirements {
	return &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{
		"memory": resource.MustParse(quantity)}}
}

// pod returns a pod that requests CPU and uses claims.
func pod(cpu string, claims ...string) *corev1.Pod {
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}}}
	for _, claim := range claims {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: claim,
			ResourceClaimName: ptr.To(claim)})
	}
	return p
}

func nodeInfo(t *testing.T, name, cpu string, more corev1.ResourceList, pods ...*corev1.Pod) fwk.NodeInfo {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	for resource, quantity := range more {
		node.Status.Allocatable[resource] = quantity
	}
	info := schedframework.NewNodeInfo(pods...)
	info.SetNode(node)
	return info
}

func (pl *GPUFragmentation) score(t *testing.T, pod *corev1.Pod, node fwk.NodeInfo) int64 {
	t.Helper()
	state := schedframework.NewCycleState()
	if status := pl.PreScore(t.Context(), state, pod, nil); !status.IsSuccess() {
		t.Fatal(status)
	}
	score, status := pl.Score(t.Context(), state, pod, node)
	if !status.IsSuccess() {
		t.Fatal(status)
	}
	if again, _ := pl.Score(t.Context(), schedframework.NewCycleState(), pod, node); again != score {
		t.Errorf("without PreScore the score is %d, with it %d", again, score)
	}
	return score
}

// oneWhole has one kind of typical pods, which need a whole GPU and 4 CPUs.
const oneWhole = `{"driver": "gpu.example.com", "capacity": "memory", "modelAttribute": "model",
	"typicalPods": [{"milliCPU": 4000, "gpus": 1}]}`

// TestScore has nodes with two GPUs of 80Gi: on "free" nothing is taken, and on "half" 40Gi of the
// first. The fragmentation before is 0 on "free", and 500 on "half".
func TestScore(t *testing.T) {
	tainted := newDevice("tainted", "T4")
	tainted.Taints = []resourcev1.DeviceTaint{{Effect: resourcev1.DeviceTaintEffectNoSchedule}}
	partition := newDevice("partition", "T4")
	partition.ConsumesCounters = []resourcev1.DeviceCounterConsumption{{}}
	m := &manager{
		version: 1,
		devices: map[string][]*resourcev1.Device{
			"free": {newDevice("f0", "T4"), newDevice("f1", "T4"), tainted, partition},
			"half": {newDevice("h0", "T4"), newDevice("h1", "T4")},
			"full": {newDevice("w0", "T4"), newDevice("w1", "T4")},
		},
		whole: map[string]bool{"w0": true, "w1": true},
		taken: map[string]structured.ConsumedCapacity{"h0": {"memory": ptr.To(resource.MustParse("40Gi"))}},
		claims: map[string]*resourcev1.ResourceClaim{
			"40Gi": newClaim(resourcev1.DeviceRequest{Exactly: &resourcev1.ExactDeviceRequest{
				DeviceClassName: "gpu.example.com", Capacity: ofMemory("40Gi")}}),
			"whole": newClaim(resourcev1.DeviceRequest{Exactly: &resourcev1.ExactDeviceRequest{
				DeviceClassName: "gpu.example.com"}}),
			"alternatives": newClaim(resourcev1.DeviceRequest{FirstAvailable: []resourcev1.DeviceSubRequest{
				{DeviceClassName: "gpu.example.com", Capacity: ofMemory("40Gi")}, {DeviceClassName: "gpu.example.com"}}}),
			"all": newClaim(resourcev1.DeviceRequest{Exactly: &resourcev1.ExactDeviceRequest{
				DeviceClassName: "gpu.example.com", AllocationMode: resourcev1.DeviceAllocationModeAll}}),
			"nic": newClaim(resourcev1.DeviceRequest{Exactly: &resourcev1.ExactDeviceRequest{
				DeviceClassName: "nic.example.com"}}),
			"admin": newClaim(resourcev1.DeviceRequest{Exactly: &resourcev1.ExactDeviceRequest{
				DeviceClassName: "gpu.example.com", AdminAccess: ptr.To(true)}}),
			"allocated": newClaim(resourcev1.DeviceRequest{Exactly: &resourcev1.ExactDeviceRequest{
				DeviceClassName: "gpu.example.com"}}),
			"pending": newClaim(resourcev1.DeviceRequest{Exactly: &resourcev1.ExactDeviceRequest{
				DeviceClassName: "gpu.example.com"}}),
		},
	}
	m.claims["allocated"].Status.Allocation = &resourcev1.AllocationResult{}
	m.claims["pending"].UID = "pending"
	pl := newPlugin(t, oneWhole, m)
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		node string
		cpu  string
		want int64
	}{
		"a gap is filled":                     {pod("1", "40Gi"), "half", "32", 62}, // 500 less
		"a gap is made":                       {pod("1", "40Gi"), "free", "32", 37}, // 500 more
		"the first alternative counts":        {pod("1", "alternatives"), "free", "32", 37},
		"a whole GPU":                         {pod("1", "whole"), "free", "32", 50}, // 0 both times
		"the whole one beside a gap":          {pod("1", "whole"), "half", "32", 50}, // 500 both times
		"all GPUs":                            {pod("1", "all"), "free", "32", 50},
		"the CPU for other pods is gone":      {pod("29"), "free", "32", 11},         // 2000 more
		"the CPU for one more pod stays":      {pod("28"), "free", "32", 50},         // none
		"the CPU is gone, as are the GPUs":    {pod("29"), "full", "32", 50},         // nothing is free
		"both":                                {pod("29", "40Gi"), "half", "32", 37}, // from 500 to 1000
		"there is none":                       {pod("1", "whole"), "full", "32", 0},
		"one is not enough":                   {pod("1", "40Gi", "whole", "whole"), "free", "32", 0},
		"another device":                      {pod("1", "nic"), "free", "32", 50},
		"administrative access":               {pod("1", "admin"), "free", "32", 50},
		"a claim that is allocated":           {pod("1", "allocated"), "half", "32", 50},
		"a claim that is about to be":         {pod("1", "pending"), "half", "32", 50},
		"a claim that is not known":           {pod("1", "unknown"), "half", "32", 50},
		"a node without GPUs":                 {pod("1"), "none", "32", 50},
		"no CPU for other pods before either": {pod("1", "40Gi"), "free", "3", 62}, // from 2000 to 1500
	} {
		if got := pl.score(t, test.pod, nodeInfo(t, test.node, test.cpu, nil)); got != test.want {
			t.Errorf("%s: the score is %d, want %d", name, got, test.want)
		}
	}
}

// TestScoreByModel has a typical pod for each of two models.
func TestScoreByModel(t *testing.T) {
	m := &manager{version: 1, devices: map[string][]*resourcev1.Device{"t4": {newDevice("t", "T4")},
		"g2": {newDevice("g", "G2")}},
		claims: map[string]*resourcev1.ResourceClaim{"half": newClaim(resourcev1.DeviceRequest{
			Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpus", Capacity: ofMemory("40Gi")}})}}
	pl := newPlugin(t, `{"driver": "gpu.example.com", "deviceClasses": ["gpus"], "capacity": "memory",
		"modelAttribute": "model", "typicalPods": [
			{"gpus": 1, "models": ["T4"], "weight": 3}, {"gpus": 1, "milliGPU": 500, "models": ["G2"]}]}`, m)
	// On t4, from 0.25*1000 to 500; on g2, from 0.75*1000 to 0.75*500.
	for node, want := range map[string]int64{"t4": 43, "g2": 59} {
		if got := pl.score(t, pod("1", "half"), nodeInfo(t, node, "32", nil)); got != want {
			t.Errorf("%s: the score is %d, want %d", node, got, want)
		}
	}
}

// TestScoreOfExtendedResources has GPUs that are only counted.
func TestScoreOfExtendedResources(t *testing.T) {
	const gpus = corev1.ResourceName("nvidia.com/gpu")
	pl := newPlugin(t, `{"resource": "nvidia.com/gpu", "typicalPods": [{"gpus": 2}]}`, nil)
	using := func(n string) *corev1.Pod {
		p := pod("1")
		p.Spec.Containers[0].Resources.Requests[gpus] = resource.MustParse(n)
		return p
	}
	eight := corev1.ResourceList{gpus: resource.MustParse("8")}
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		used string
		want int64
	}{
		"one is left over":    {using("1"), "6", 26}, // of 2, one is left: from 0 to 1000
		"none is left over":   {using("2"), "6", 50},
		"a left-over is used": {using("1"), "7", 73},
	} {
		if got := pl.score(t, test.pod, nodeInfo(t, "n", "32", eight, using(test.used))); got != test.want {
			t.Errorf("%s: the score is %d, want %d", name, got, test.want)
		}
	}
}

func TestMostAllocated(t *testing.T) {
	m := &manager{version: 1,
		devices: map[string][]*resourcev1.Device{"half": {newDevice("h0", "T4"), newDevice("h1", "T4")},
			"full": {newDevice("w0", "T4")}},
		whole: map[string]bool{"w0": true},
		taken: map[string]structured.ConsumedCapacity{"h0": {"memory": ptr.To(resource.MustParse("40Gi"))}}}
	pl := newMostAllocated(t, `{"driver": "gpu.example.com", "capacity": "memory"}`, m)
	for node, want := range map[string]int64{"half": 25, "full": 100, "none": 0} {
		got, status := pl.Score(t.Context(), nil, pod("1"), nodeInfo(t, node, "32", nil))
		if got != want || !status.IsSuccess() {
			t.Errorf("%s: the score is %d (%v), want %d", node, got, status, want)
		}
	}
	using := pod("1")
	using.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"] = resource.MustParse("6")
	pl = newMostAllocated(t, `{"resource": "nvidia.com/gpu"}`, nil)
	eight := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}
	if got, _ := pl.Score(t.Context(), nil, pod("1"), nodeInfo(t, "n", "32", eight, using)); got != 75 {
		t.Errorf("with 6 of 8 in use the score is %d", got)
	}
	for args, want := range map[string]string{`{}`: "driver", `{"resource": "r", "capacity": "c"}`: "driver",
		`{"driver": "d", "typicalPods": []}`: "typicalPods"} {
		if err := CheckMostAllocatedArgs(&runtime.Unknown{Raw: []byte(args)}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v", args, err)
		}
	}
}

func TestCapacitiesWithADefault(t *testing.T) {
	device := newDevice("d", "T4")
	memory := device.Capacity["memory"]
	memory.RequestPolicy = &resourcev1.CapacityRequestPolicy{Default: ptr.To(resource.MustParse("20Gi"))}
	device.Capacity["memory"] = memory
	m := &manager{version: 1, devices: map[string][]*resourcev1.Device{"n": {device}}}
	gpus := newPlugin(t, oneWhole, m).gpusOf(nodeInfo(t, "n", "32", nil))
	(&request{count: 1}).takeFrom(gpus)
	if len(gpus) != 1 || gpus[0].free != 750 || gpus[0].model != "T4" {
		t.Errorf("left are %+v, want three quarters of a T4", gpus)
	}
}

// TestDevicesAreReadWhenTheyChange also forgets what no decision has needed for long.
func TestDevicesAreReadWhenTheyChange(t *testing.T) {
	m := &manager{version: 1, devices: map[string][]*resourcev1.Device{"n": {newDevice("d", "T4")}},
		whole: map[string]bool{}}
	pl := newPlugin(t, oneWhole, m)
	ask := func(want int64, reads int) {
		t.Helper()
		if got := pl.score(t, pod("31"), nodeInfo(t, "n", "32", nil)); got != want || m.reads != reads {
			t.Errorf("the score is %d after %d reads, want %d after %d", got, m.reads, want, reads)
		}
	}
	ask(26, 1) // 1000 more
	ask(26, 1)
	m.whole["d"] = true
	m.version++
	ask(50, 2) // nothing is free
	for range ageLimit {
		pl.known.age()
	}
	ask(50, 2)
	for range 2 * ageLimit {
		pl.known.age()
	}
	ask(50, 3)
	if n := len(pl.known.young) + len(pl.known.old); n != 1 {
		t.Errorf("%d nodes are known", n)
	}
}

func TestArguments(t *testing.T) {
	for args, want := range map[string]string{
		oneWhole: "",
		`{"resource": "nvidia.com/gpu", "typicalPods": [{"milliCPU": 100, "gpus": 1, "milliGPU": 10}]}`: "",
		``:                "driver",
		`{"driver": "d"}`: "typicalPods",
		`{"resource": "r", "capacity": "c", "typicalPods": [{}]}`:                            "driver",
		`{"driver": "d", "typicalPods": [{}, {"milliCPU": -1}]}`:                             "typicalPods[1].milliCPU",
		`{"driver": "d", "typicalPods": [{"gpus": -1}]}`:                                     "gpus",
		`{"driver": "d", "typicalPods": [{"gpus": 1025}]}`:                                   "gpus",
		`{"driver": "d", "typicalPods": [{"gpus": 1, "milliGPU": 1001}]}`:                    "milliGPU",
		`{"driver": "d", "typicalPods": [{"gpus": 1, "milliGPU": -1}]}`:                      "milliGPU",
		`{"driver": "d", "typicalPods": [{"milliGPU": 10}]}`:                                 "milliGPU",
		`{"driver": "d", "typicalPods": [{"gpus": 1, "models": ["T4"]}]}`:                    "models",
		`{"driver": "d", "typicalPods": [{"weight": -1}]}`:                                   "weight",
		`{"driver": "d", "typicalPods": [` + strings.Repeat("{}, ", maxTypicalPods) + `{}]}`: "typicalPods",
		`{"driver": "d", "typical": []}`:                                                     "typical",
	} {
		err := CheckArgs(&runtime.Unknown{Raw: []byte(args)})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.80s: the error is %v, want one about %q", args, err, want)
		}
	}
}

func TestTheDriverNeedsDynamicResourceAllocation(t *testing.T) {
	_, err := New(t.Context(), &runtime.Unknown{Raw: []byte(oneWhole)}, handle{})
	if err == nil || !strings.Contains(err.Error(), "gpu.example.com") {
		t.Errorf("the error is %v", err)
	}
}

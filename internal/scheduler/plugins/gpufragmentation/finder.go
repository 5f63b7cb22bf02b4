// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package gpufragmentation

import (
	"fmt"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"
)

// nodeDevices is what livesched's manager of dynamic resources has besides what Kubernetes' has.
type nodeDevices interface {
	// EachDevice calls a function for the devices in a node's own slices, in the order in which
	// they are allocated, and returns their version. If that is the known one, it does not call the
	// function. allocated means that a claim has the device for itself, and consumed is what claims
	// have of its capacity. The function must not use the manager. The version of no devices is 0.
	EachDevice(node string, known [2]uint64, do func(driver string, device *resourcev1.Device, allocated bool,
		consumed structured.ConsumedCapacity)) (version [2]uint64)
}

// finder finds the GPUs of nodes. Several goroutines may use it.
type finder struct {
	of             Devices
	modelAttribute resourcev1.QualifiedName
	// devices is nil without a driver.
	devices nodeDevices
	known   known
}

func newFinder(of Devices, modelAttribute resourcev1.QualifiedName, handle fwk.Handle) (*finder, error) {
	f := &finder{of: of, modelAttribute: modelAttribute}
	if of.Driver == "" {
		return f, nil
	}
	var ok bool
	if f.devices, ok = handle.SharedDRAManager().(nodeDevices); !ok {
		return nil, fmt.Errorf("driver %q: dynamic resource allocation is off", of.Driver)
	}
	return f, nil
}

// gpusOf returns the GPUs of a node: devices, and whole ones that are only counted. The caller must
// not change them.
func (f *finder) gpusOf(node fwk.NodeInfo) []gpu {
	var gpus []gpu
	if f.devices != nil {
		gpus = f.devicesOf(node.Node().Name)
	}
	if name := f.of.Resource; name != "" {
		all := node.GetAllocatable().GetScalarResources()[name]
		free := all - node.GetRequested().GetScalarResources()[name]
		gpus = slices.Clip(gpus)
		for i := range min(all, maxGPUs) {
			g := gpu{}
			if i < free {
				g.free = whole
			}
			gpus = append(gpus, g)
		}
	}
	return gpus
}

// devicesOf returns the devices of a node. It reads them again if they have changed.
func (f *finder) devicesOf(node string) []gpu {
	was := f.known.get(node)
	var gpus []gpu
	version := f.devices.EachDevice(node, was.version, func(driver string, device *resourcev1.Device, allocated bool,
		consumed structured.ConsumedCapacity) {
		if driver == f.of.Driver && usable(device) {
			gpus = append(gpus, f.gpuOf(driver, device, allocated, consumed))
		}
	})
	if version == was.version {
		return was.gpus
	}
	f.known.set(node, knownNode{version, gpus})
	return gpus
}

// usable reports whether a device is a GPU that ordinary pods may get: neither tainted nor a
// partition, which may exclude other partitions.
func usable(device *resourcev1.Device) bool {
	return len(device.ConsumesCounters) == 0 && !slices.ContainsFunc(device.Taints, func(t resourcev1.DeviceTaint,
	) bool {
		return t.Effect == resourcev1.DeviceTaintEffectNoSchedule || t.Effect == resourcev1.DeviceTaintEffectNoExecute
	})
}

// gpuOf returns what a device has left.
func (f *finder) gpuOf(driver string, device *resourcev1.Device, allocated bool,
	consumed structured.ConsumedCapacity) gpu {
	g := gpu{free: whole, model: f.modelOf(driver, device)}
	capacity, ok := device.Capacity[f.of.Capacity]
	switch {
	case allocated:
		g.free = 0
	case ok && ptr.Deref(device.AllowMultipleAllocations, false) && capacity.Value.Value() > 0:
		g.capacity = capacity.Value.Value()
		if policy := capacity.RequestPolicy; policy != nil && policy.Default != nil {
			g.usual = policy.Default.Value()
		}
		if used := consumed[f.of.Capacity]; used != nil {
			g.free = max(0, g.capacity-used.Value()) * whole / g.capacity
		}
	}
	return g
}

// modelOf returns the model of a device, "" if it has none.
func (f *finder) modelOf(driver string, device *resourcev1.Device) string {
	if f.modelAttribute == "" {
		return ""
	}
	attribute, ok := device.Attributes[f.modelAttribute]
	if !ok { // the domain of an attribute is the driver's if its name has none
		attribute = device.Attributes[resourcev1.QualifiedName(driver)+"/"+f.modelAttribute]
	}
	return ptr.Deref(attribute.StringValue, "")
}

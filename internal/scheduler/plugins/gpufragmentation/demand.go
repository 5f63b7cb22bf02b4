// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package gpufragmentation

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"
)

// demand is what a pod needs of the node that it is placed on. It is the data of the plugin in the
// state of a cycle, and does not change.
type demand struct {
	cpu      int64
	requests []request
}

// request is a request for GPUs.
type request struct {
	count int64
	// amount is what is needed of the capacity of each GPU, 0 if the claim does not say.
	amount int64
}

// allGPUs is the count of a request for all GPUs of the node.
const allGPUs = math.MaxInt64

// Clone implements fwk.StateData.
func (d *demand) Clone() fwk.StateData { return d }

// demandOf reads what a pod needs. Claims that are allocated, or are not known yet, ask for
// nothing.
func (pl *GPUFragmentation) demandOf(pod *corev1.Pod) *demand {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	d := &demand{cpu: requests.Cpu().MilliValue()}
	if quantity, ok := requests[pl.args.Resource]; ok {
		d.requests = append(d.requests, request{count: quantity.Value()})
	}
	if pl.claims == nil {
		return d
	}
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil || name == nil {
			continue
		}
		claim, err := pl.claims.Get(pod.Namespace, *name)
		if err == nil && claim.Status.Allocation == nil && pl.claims.GetPendingAllocation(claim.UID) == nil {
			pl.addRequests(d, claim)
		}
	}
	return d
}

// addRequests adds the requests of a claim for GPUs. Of alternatives, the first counts.
func (pl *GPUFragmentation) addRequests(d *demand, claim *resourcev1.ResourceClaim) {
	for i := range claim.Spec.Devices.Requests {
		switch r := &claim.Spec.Devices.Requests[i]; {
		case r.Exactly != nil && !ptr.Deref(r.Exactly.AdminAccess, false):
			pl.addRequest(d, r.Exactly.DeviceClassName, r.Exactly.AllocationMode, r.Exactly.Count, r.Exactly.Capacity)
		case len(r.FirstAvailable) > 0:
			first := &r.FirstAvailable[0]
			pl.addRequest(d, first.DeviceClassName, first.AllocationMode, first.Count, first.Capacity)
		}
	}
}

func (pl *GPUFragmentation) addRequest(d *demand, class string, mode resourcev1.DeviceAllocationMode, count int64,
	capacity *resourcev1.CapacityRequirements) {
	if !slices.Contains(pl.args.DeviceClasses, class) {
		return
	}
	r := request{count: max(count, 1)}
	if mode == resourcev1.DeviceAllocationModeAll {
		r.count = allGPUs
	}
	if capacity != nil {
		if quantity, ok := capacity.Requests[pl.args.Capacity]; ok {
			r.amount = quantity.Value()
		}
	}
	d.requests = append(d.requests, r)
}

// takeFrom takes the request from the GPUs of a node, as Kubernetes allocates devices: each time
// the first that has enough left. It returns false if there are too few.
func (r *request) takeFrom(gpus []gpu) bool {
	left := r.count
	for i := range gpus {
		if left == 0 {
			return true
		}
		if need := r.of(&gpus[i]); gpus[i].free >= need {
			gpus[i].free -= need
			left--
		}
	}
	return left == 0 || r.count == allGPUs
}

// of returns what the request needs of a GPU, in thousandths.
func (r *request) of(g *gpu) int64 {
	amount := r.amount
	if amount == 0 {
		amount = g.usual
	}
	if g.capacity == 0 || amount == 0 {
		return whole
	}
	return (amount*whole + g.capacity - 1) / g.capacity
}

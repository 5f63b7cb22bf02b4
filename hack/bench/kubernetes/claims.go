// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"fmt"
	"math/rand/v2"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kubernetes/pkg/features"
)

// run allocates all claims of a namespace on random nodes, without pods.
func (o *allocResourceClaims) run(ctx context.Context, e *executor, _ int) error {
	claims, err := e.client.ResourceV1().ResourceClaims(o.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil || len(claims.Items) == 0 {
		return err
	}
	nodes, err := e.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	a, err := e.newAllocation(ctx)
	if err != nil {
		return err
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		if claim.Status.Allocation != nil {
			continue
		}
		allocator, err := a.allocator(ctx)
		if err != nil {
			return err
		}
		for _, n := range rand.Perm(len(nodes.Items)) {
			results, err := allocator.Allocate(ctx, &nodes.Items[n], []*resourcev1.ResourceClaim{claim})
			if err != nil {
				return err
			}
			if len(results) > 0 {
				claim.Status.Allocation = &results[0]
				break
			}
		}
		if claim.Status.Allocation == nil {
			return fmt.Errorf("claim %d of %d fits on no node", i, len(claims.Items))
		}
		_, err = e.client.ResourceV1().ResourceClaims(claim.Namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{})
		if err != nil {
			return err
		}
		a.take(claim.Status.Allocation)
	}
	return nil
}

// allocation is what claims are allocated from, and what they have so far.
type allocation struct {
	features  structured.Features
	classes   deviceClasses
	slices    []*resourcev1.ResourceSlice
	allocated structured.AllocatedState
	cache     *cel.Cache
}

// newAllocation returns the devices of the cluster, and those that claims have.
func (e *executor) newAllocation(ctx context.Context) (*allocation, error) {
	on := e.gates()
	enabled := func(gate featuregate.Feature) bool {
		if value, ok := on[string(gate)]; ok {
			return value
		}
		return utilfeature.DefaultFeatureGate.Enabled(gate)
	}
	a := &allocation{
		features: structured.Features{
			PrioritizedList:      enabled(features.DRAPrioritizedList),
			AdminAccess:          enabled(features.DRAAdminAccess),
			DeviceTaints:         enabled(features.DRADeviceTaints),
			PartitionableDevices: enabled(features.DRAPartitionableDevices),
			ConsumableCapacity:   enabled(features.DRAConsumableCapacity),
			CompatibilityGroups:  enabled(features.DRADeviceCompatibilityGroups),
		},
		allocated: structured.AllocatedState{
			AllocatedDevices:         sets.New[structured.DeviceID](),
			AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
			AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
		},
		cache: cel.NewCache(10, cel.Features{
			EnableConsumableCapacity: enabled(features.DRAConsumableCapacity),
			EnableListTypeAttributes: enabled(features.DRAListTypeAttributes),
		}),
	}
	classes, err := e.client.ResourceV1().DeviceClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range classes.Items {
		a.classes = append(a.classes, &classes.Items[i])
	}
	slices, err := e.client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range slices.Items {
		a.slices = append(a.slices, &slices.Items[i])
	}
	claims, err := e.client.ResourceV1().ResourceClaims("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, claim := range claims.Items {
		a.take(claim.Status.Allocation)
	}
	return a, nil
}

func (a *allocation) allocator(ctx context.Context) (structured.Allocator, error) {
	return structured.NewAllocator(ctx, a.features, a.allocated, a.classes, a.slices, a.cache)
}

// take records the devices of an allocation.
func (a *allocation) take(of *resourcev1.AllocationResult) {
	if of == nil {
		return
	}
	for _, result := range of.Devices.Results {
		device := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
		if result.ShareID == nil {
			a.allocated.AllocatedDevices.Insert(device)
			continue
		}
		a.allocated.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(device, result.ShareID))
		if result.ConsumedCapacity != nil {
			a.allocated.AggregatedCapacity.
				Insert(structured.NewDeviceConsumedCapacity(device, result.ConsumedCapacity))
		}
	}
}

// deviceClasses are the classes that the allocator looks up.
type deviceClasses []*resourcev1.DeviceClass

func (c deviceClasses) List() ([]*resourcev1.DeviceClass, error) { return c, nil }

func (c deviceClasses) Get(name string) (*resourcev1.DeviceClass, error) {
	for _, class := range c {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, fmt.Errorf("there is no DeviceClass %s", name)
}

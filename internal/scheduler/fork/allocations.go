// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fork

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/nodepool"
)

// NodeAllocations returns the room of all nodes, by name, without refusals.
func (f *Fork) NodeAllocations() ([]v1alpha1.NodeAllocation, error) {
	if err := f.refresh(); err != nil {
		return nil, err
	}
	nodes, err := f.snapshot.NodeInfos().List()
	if err != nil {
		return nil, err
	}
	allocations := make([]v1alpha1.NodeAllocation, 0, len(nodes))
	for _, node := range nodes {
		allocations = append(allocations, allocationOf(node))
	}
	slices.SortFunc(allocations, func(a, b v1alpha1.NodeAllocation) int { return cmp.Compare(a.Name, b.Name) })
	return allocations, nil
}

// allocationOf returns the room of a node.
func allocationOf(info fwk.NodeInfo) v1alpha1.NodeAllocation {
	node := info.Node()
	allocation := v1alpha1.NodeAllocation{
		Name: node.Name, Pool: nodepool.Of(node), Zone: node.Labels[corev1.LabelTopologyZone],
		Cordoned: node.Spec.Unschedulable, NotReady: true,
		Allocatable: resourcesOf(info.GetAllocatable()), Requested: resourcesOf(info.GetRequested()),
	}
	allocation.Allocatable[corev1.ResourcePods] =
		*resource.NewQuantity(int64(info.GetAllocatable().GetAllowedPodNumber()), resource.DecimalSI)
	allocation.Requested[corev1.ResourcePods] = *resource.NewQuantity(int64(len(info.GetPods())), resource.DecimalSI)
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			allocation.NotReady = false
		}
	}
	for i := range node.Spec.Taints {
		if taint := &node.Spec.Taints[i]; taint.Effect != corev1.TaintEffectPreferNoSchedule {
			allocation.Taints = append(allocation.Taints, taint.ToString())
		}
	}
	return allocation
}

// resourcesOf returns the resources that are not zero, but for pods, as Kubernetes writes them.
func resourcesOf(r fwk.Resource) corev1.ResourceList {
	list := corev1.ResourceList{}
	add := func(name corev1.ResourceName, quantity *resource.Quantity) {
		if !quantity.IsZero() {
			list[name] = *quantity
		}
	}
	add(corev1.ResourceCPU, resource.NewMilliQuantity(r.GetMilliCPU(), resource.DecimalSI))
	add(corev1.ResourceMemory, resource.NewQuantity(r.GetMemory(), resource.BinarySI))
	add(corev1.ResourceEphemeralStorage, resource.NewQuantity(r.GetEphemeralStorage(), resource.BinarySI))
	for name, value := range r.GetScalarResources() {
		add(name, resource.NewQuantity(value, resource.DecimalSI))
	}
	return list
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboarddata

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/livesched/livesched/api/v1alpha1"
)

// Simulate answers as for a profile that fills nodes one after the other, in place of one that
// spreads pods.
func (s *Source) Simulate(ctx context.Context, simulation *v1alpha1.Simulation) (*v1alpha1.SimulationStatus, error) {
	if err := s.Errors["Simulate"]; err != nil {
		return nil, err
	}
	status := &v1alpha1.SimulationStatus{Pods: 2000, Matching: 5312, Nodes: int32(s.Nodes),
		Actual: s.outcome(2, 388, 561, 142, 1), Current: s.outcome(2, 390, 561, 140, 1)}
	next := s.outcome(5, 301, 561, 318, 9)
	next.Moved, next.Preemptions, next.Victims = 1377, 1, 2
	next.MovedByOwner = []v1alpha1.OwnerPods{
		{Kind: "Deployment", Namespace: "shop", Name: "checkout" + s.Hostile, Pods: 1310},
		{Kind: "Pod", Namespace: "ci", Pods: 60}}
	next.UnplacedPods = []v1alpha1.UnplacedPod{{Namespace: "batch", Name: "nightly-report-28401-x7k2p",
		Message: "0/400 nodes are available: 400 Insufficient memory." + s.Hostile}}
	status.New = &next
	if !simulation.Spec.NodeAllocations {
		return status, nil
	}
	list, err := s.NodeAllocations(ctx, types.NamespacedName{})
	if err != nil {
		return nil, err
	}
	status.Current.NodeAllocations, status.New.NodeAllocations = list.Items, packed(list.Items)
	return status, nil
}

func (s *Source) outcome(unplaced, used, mean, deviation, skew int32) v1alpha1.SimulationOutcome {
	return v1alpha1.SimulationOutcome{Unplaced: unplaced, NodesUsed: used, ZoneSkewMax: skew,
		Utilization: []v1alpha1.ResourceUtilization{
			{Resource: "cpu", MeanPermille: mean, StddevPermille: deviation},
			{Resource: "nvidia.com/gpu", MeanPermille: mean + 112, StddevPermille: deviation + 31}}}
}

// packed returns the same nodes, of which three quarters are full.
func packed(nodes []v1alpha1.NodeAllocation) []v1alpha1.NodeAllocation {
	nodes = append([]v1alpha1.NodeAllocation(nil), nodes...)
	for i := range nodes {
		requested := corev1.ResourceList{}
		for name, quantity := range nodes[i].Allocatable {
			share := quantity.Value() / 20
			if i%4 != 0 {
				share = quantity.Value() * 19 / 20
			}
			requested[name] = *resource.NewQuantity(share, quantity.Format)
		}
		nodes[i].Requested = requested
	}
	return nodes
}

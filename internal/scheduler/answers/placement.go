// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/resolve"
	"github.com/livesched/livesched/internal/scheduler/simulate"
)

// Placement compares, in a copy of the state, where a candidate and the profile that runs under its
// scheduler name would place so many of that profile's pods.
func (a *Answers) Placement(ctx context.Context, candidate *resolve.Profile,
	pods int) (*v1alpha1.RolloutPlacement, error) {
	k, err := a.Forker.Fork(ctx)
	if err != nil {
		return nil, err
	}
	defer k.Close()
	pending, err := a.unassigned()
	if err != nil {
		return nil, err
	}
	placement := &v1alpha1.RolloutPlacement{Time: metav1.NewTime(a.Clock.Now()).Rfc3339Copy()}
	name := candidate.SchedulerName
	status, err := simulate.Run(ctx, k, simulate.Request{
		Pods: simulate.Selection{Type: v1alpha1.PodsAll, Limit: pods, Labels: labels.Everything(), Of: name},
		// A configuration of its own: the fork builds one instance of each.
		Changes: map[string]*resolve.Profile{name: candidate}, Pending: pending,
	})
	if err != nil {
		return nil, err
	}
	placement.Pods = status.Pods
	placement.Stable, placement.Canary = placementOutcome(&status.Current), placementOutcome(status.New)
	return placement, nil
}

func placementOutcome(o *v1alpha1.SimulationOutcome) v1alpha1.PlacementOutcome {
	return v1alpha1.PlacementOutcome{Unplaced: o.Unplaced, NodesUsed: o.NodesUsed, ZoneSkewMax: o.ZoneSkewMax,
		Preemptions: o.Preemptions, Utilization: o.Utilization}
}

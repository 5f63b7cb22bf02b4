// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// The statuses with which the two plugins refuse nodes. They must not be modified.
var (
	spreadLacksLabel = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, podtopologyspread.ErrReasonNodeLabelNotMatch).
				WithPlugin(podtopologyspread.Name)
	spreadSkewed = fwk.NewStatus(fwk.Unschedulable, podtopologyspread.ErrReasonConstraintsNotMatch).
			WithPlugin(podtopologyspread.Name)
	affinityMissing = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, interpodaffinity.ErrReasonAffinityRulesNotMatch).
			WithPlugin(interpodaffinity.Name)
	affinityHostile = fwk.NewStatus(fwk.Unschedulable, interpodaffinity.ErrReasonAntiAffinityRulesNotMatch).
			WithPlugin(interpodaffinity.Name)
	affinityGuarded = fwk.NewStatus(fwk.Unschedulable, interpodaffinity.ErrReasonExistingAntiAffinityRulesNotMatch).
			WithPlugin(interpodaffinity.Name)
)

// Refusal implements Tracker.
func (s *spread) Refusal(slot cache.Slot) *fwk.Status {
	for i := range s.hard {
		y := &s.hard[i]
		place := y.at[slot]
		switch {
		case place == unlabelled:
			return spreadLacksLabel
		case int(y.pods[place]) > y.limit():
			return spreadSkewed
		}
	}
	return nil
}

// Refusal implements Tracker. The plugin checks required affinity first.
func (a *affinity) Refusal(slot cache.Slot) *fwk.Status {
	first := a.first && a.matches == 0
	for _, x := range a.required {
		if place := x.at[slot]; first && place == unlabelled || !first && x.affine.in(place) <= 0 {
			return affinityMissing
		}
	}
	for _, x := range a.anti {
		if x.hostile.in(x.at[slot]) > 0 {
			return affinityHostile
		}
	}
	for _, x := range a.axes {
		if x.guarded.in(x.at[slot]) > 0 {
			return affinityGuarded
		}
	}
	return nil
}

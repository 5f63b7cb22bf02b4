// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"time"

	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/rollout"
)

// The defaults of the schema.
const (
	defaultShadowFor = 5 * time.Minute
	defaultMinOwners = 3
	defaultOdds      = 100
	defaultPause     = 10 * time.Minute

	defaultPlacementPods = 500
)

// RolloutPlan returns how a spec whose strategy is Canary is rolled out.
func RolloutPlan(spec *v1alpha1.SchedulerProfileSpec) *rollout.Plan {
	canary := ptr.Deref(spec.Rollout.Canary, v1alpha1.CanarySpec{})
	p := &rollout.Plan{
		ShadowFor: defaultShadowFor, MinOwners: int(ptr.Deref(canary.Analysis.MinOwners, defaultMinOwners)),
		Odds:          float64(ptr.Deref(canary.Analysis.Odds, defaultOdds)),
		PlacementPods: int(ptr.Deref(canary.Analysis.PlacementPods, defaultPlacementPods)),
		Measured:      map[rollout.Metric]bool{},
	}
	if canary.ShadowDuration != nil {
		p.ShadowFor = max(canary.ShadowDuration.Duration, 0)
	}
	for _, metric := range canary.Analysis.DryRun {
		p.Measured[rollout.Metric(metric.MetricName)] = true
	}
	for _, step := range canary.Steps {
		switch {
		case step.SetWeight != nil:
			p.Steps = append(p.Steps, rollout.Step{Weight: int(*step.SetWeight)})
		case step.Pause != nil && step.Pause.Duration != nil:
			// Not 0, which would be a pause without an end.
			p.Steps = append(p.Steps, rollout.Step{Pause: max(step.Pause.Duration.Duration, 1)})
		default:
			p.Steps = append(p.Steps, rollout.Step{})
		}
	}
	if canary.Steps == nil {
		p.Steps = []rollout.Step{{Weight: 5}, {Pause: defaultPause}, {Weight: 50}, {Pause: defaultPause}}
	}
	return p
}

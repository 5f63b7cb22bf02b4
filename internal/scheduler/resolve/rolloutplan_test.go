// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/livesched/livesched/internal/rollout"
	"github.com/livesched/livesched/internal/scheduler/resolve"
	"github.com/livesched/livesched/test/objects"
)

func TestThePlanOfARollOut(t *testing.T) {
	for spec, want := range map[string]*rollout.Plan{
		"": {ShadowFor: 5 * time.Minute, MinOwners: 3, Odds: 100, PlacementPods: 500,
			Measured: map[rollout.Metric]bool{},
			Steps:    []rollout.Step{{Weight: 5}, {Pause: 10 * time.Minute}, {Weight: 50}, {Pause: 10 * time.Minute}}},
		"shadowDuration: 0s, " +
			"steps: [{setWeight: 20}, {pause: {}}, {pause: {duration: 1h}}, {pause: {duration: 0s}}], " +
			"analysis: {minOwners: 1, odds: 20, placementPods: 0, dryRun: [{metricName: Preempting}]}": {
			MinOwners: 1, Odds: 20, Measured: map[rollout.Metric]bool{rollout.Preempting: true},
			Steps: []rollout.Step{{Weight: 20}, {}, {Pause: time.Hour}, {Pause: 1}},
		},
	} {
		object := objects.Profile("mine", "rollout: {strategy: Canary, canary: {"+spec+"}}")
		if diff := cmp.Diff(want, resolve.RolloutPlan(&object.Spec)); diff != "" {
			t.Errorf("%q: (-want +got)\n%s", spec, diff)
		}
	}
}

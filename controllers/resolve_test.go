// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

func TestARejectedSpecIsCountedOnce(t *testing.T) {
	var r rejections
	look := func(generation int64, profile, policy bool) float64 {
		before := testutil.ToFloat64(metrics.Reloads.WithLabelValues(metrics.ReloadRejected))
		r = r.count(&objects{
			profiles: []v1alpha1.SchedulerProfile{
				{ObjectMeta: metav1.ObjectMeta{Name: "one", UID: "1", Generation: generation}}},
			policies: []v1alpha1.SchedulingPolicy{
				{ObjectMeta: metav1.ObjectMeta{Name: "one", UID: "2", Generation: 1}}},
		}, &resolve.Resolution{
			ProfileResults: map[string]resolve.Result{"one": {Accepted: profile}},
			PolicyResults:  map[string]resolve.Result{"one": {Accepted: policy}},
		})
		return testutil.ToFloat64(metrics.Reloads.WithLabelValues(metrics.ReloadRejected)) - before
	}
	for i, step := range []struct {
		what            string
		generation      int64
		profile, policy bool
		want            float64
	}{
		{"all is accepted", 1, true, true, 0},
		{"a profile is not", 2, false, true, 1},
		{"the same, looked at again", 2, false, true, 0},
		{"its next generation is not, either, nor is the policy", 3, false, false, 2},
		{"the policy is again", 3, false, true, 0},
		{"and is not again", 3, false, false, 1},
		{"all is accepted again", 4, true, true, 0},
	} {
		if got := look(step.generation, step.profile, step.policy); got != step.want {
			t.Errorf("step %d, %s: %v specs counted, want %v", i, step.what, got, step.want)
		}
	}
}

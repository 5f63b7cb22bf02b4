// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/livesched/livesched/api/v1alpha1"
)

// IsCanary reports whether changes of a spec are rolled out step by step.
func IsCanary(spec *v1alpha1.SchedulerProfileSpec) bool {
	return spec.Rollout != nil && spec.Rollout.Strategy == v1alpha1.RolloutCanary
}

// tried returns the last good profile of an object that runs while its present spec is tried, nil
// if the present spec takes effect at once: because that is wanted, because nothing has run yet, or
// because it decides as before.
func (r *resolver) tried(c *candidate, present *Profile) *Profile {
	if !IsCanary(&c.object.Spec) {
		return nil
	}
	last := r.lastGood(c.object)
	if last == nil || last.SchedulerName != present.SchedulerName || last.Revision == present.Revision {
		return nil
	}
	return last
}

// checkOrder reports a present spec that would change the order of the queue step by step: there is
// one queue.
func checkOrder(spec *v1alpha1.SchedulerProfileSpec, last, present *Profile, found *problems) {
	if last.QueueSort == present.QueueSort {
		return
	}
	found.add(v1alpha1.ReasonInvalid, field.NewPath("spec", "rollout", "strategy"),
		"the queue sort cannot change from %s to %s with the strategy %q, because all pods are in one queue; use %q",
		last.QueueSort, present.QueueSort, v1alpha1.RolloutCanary, v1alpha1.RolloutImmediate)
}

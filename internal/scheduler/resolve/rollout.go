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
// because it decides as before. It returns problems if the present spec cannot be tried, or not
// yet.
func (r *resolver) tried(c *candidate, present *Profile) (*Profile, problems) {
	var found problems
	if !IsCanary(&c.object.Spec) {
		return nil, nil
	}
	path := field.NewPath("spec", "rollout", "strategy")
	last, unanswered := r.lastGood(c.object)
	if len(unanswered) > 0 {
		found.add(v1alpha1.ReasonSecretNotReadable, path, "the spec cannot be rolled out with the strategy %q yet, "+
			"because it is not known whether the last good spec can run (%s); with %q, it takes effect at once",
			v1alpha1.RolloutCanary, unanswered.message(), v1alpha1.RolloutImmediate)
		return nil, found
	}
	if last == nil || last.SchedulerName != present.SchedulerName || last.Revision == present.Revision {
		return nil, nil
	}
	if last.QueueSort != present.QueueSort {
		found.add(v1alpha1.ReasonInvalid, path,
			"the queue sort cannot change from %s to %s with the strategy %q, because all pods are in one queue; use "+
				"%q",
			last.QueueSort, present.QueueSort, v1alpha1.RolloutCanary, v1alpha1.RolloutImmediate)
	}
	return last, found
}

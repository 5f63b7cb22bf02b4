// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
)

// isShadow reports whether a spec is one of a shadow.
func isShadow(spec *v1alpha1.SchedulerProfileSpec) bool { return spec.Mode == v1alpha1.ProfileShadow }

// followed returns what a shadow follows, with the scheduler name of that profile. It returns nil
// for other specs, and if there is a problem.
func (r *resolver) followed(spec *v1alpha1.SchedulerProfileSpec, found *problems) (*Shadow, string) {
	path := field.NewPath("spec", "shadow")
	switch {
	case !isShadow(spec) && spec.Shadow != nil:
		found.add(v1alpha1.ReasonInvalid, path, "only a profile of mode %q follows another one", v1alpha1.ProfileShadow)
		return nil, ""
	case !isShadow(spec):
		return nil, ""
	case spec.Shadow == nil:
		found.add(v1alpha1.ReasonInvalid, path, "a profile of mode %q needs the profile that it follows",
			v1alpha1.ProfileShadow)
		return nil, ""
	}
	s := &Shadow{Profile: spec.Shadow.ProfileRef.Name, SamplePercent: ptr.Deref(spec.Shadow.SamplePercent, 100)}
	if s.SamplePercent < 1 || s.SamplePercent > 100 {
		found.add(v1alpha1.ReasonInvalid, path.Child("samplePercent"), "must be from 1 to 100, is %d", s.SamplePercent)
	}
	path = path.Child("profileRef", "name")
	target := r.out.profiles[s.Profile]
	switch {
	case target == nil:
		found.add(v1alpha1.ReasonProfileNotFound, path, "SchedulerProfile %q does not exist", s.Profile)
		return nil, ""
	case isShadow(&target.Spec):
		found.add(v1alpha1.ReasonInvalid, path, "SchedulerProfile %q is a shadow: a shadow follows a profile that "+
			"schedules pods", s.Profile)
		return nil, ""
	}
	return s, SchedulerName(target)
}

// resolveShadow adds the result of a shadow. A shadow takes no scheduler name and does not order
// the queue, so it conflicts with no other profile. One that is not accepted decides nothing:
// nobody asked how its last good spec compares.
func (r *resolver) resolveShadow(c *candidate) {
	result := Result{
		Generation: c.object.Generation, Accepted: true, Reason: v1alpha1.ReasonAccepted,
		Message: withWarnings(c.accepted, c.warnings), Warnings: c.warnings, ShadowID: shadowID(c.object.Name),
	}
	if len(c.problems) > 0 {
		result.Accepted, result.Reason, result.Message = false, c.problems[0].Reason, c.problems.message()
		result.Problems, result.Obstacles = c.problems.divide()
	} else {
		r.out.Shadows[c.current.ID()] = c.current
	}
	r.out.ProfileResults[c.object.Name] = result
}

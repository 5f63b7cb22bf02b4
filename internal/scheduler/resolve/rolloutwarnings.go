// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/livesched/livesched/api/v1alpha1"
)

// warnRollout reports settings of roll-outs without an effect, and steps that compare nothing.
func warnRollout(spec *v1alpha1.SchedulerProfileSpec, path *field.Path, found *problems) {
	switch {
	case spec.Rollout == nil:
	case isShadow(spec):
		found.warn(path, "has no effect on a profile of mode %q", v1alpha1.ProfileShadow)
	case spec.Rollout.Canary == nil:
	case !IsCanary(spec):
		found.warn(path.Child("canary"), "has no effect with the strategy %q", v1alpha1.RolloutImmediate)
	default:
		warnSteps(spec.Rollout.Canary.Steps, path.Child("canary", "steps"), found)
	}
}

func warnSteps(steps []v1alpha1.CanaryStep, path *field.Path, found *problems) {
	weight, paused := int32(0), true
	for i, step := range steps {
		path := path.Index(i)
		if step.SetWeight == nil {
			if step.Pause != nil && step.Pause.Duration != nil { // others wait for the user
				warnPause(weight, path.Child("pause"), found)
			}
			paused = true
			continue
		}
		switch next := *step.SetWeight; {
		case !paused:
			found.warn(path.Child("setWeight"), "follows the weight %d without a pause: the roll-out skips that weight",
				weight)
		case next < weight:
			found.warn(path.Child("setWeight"), "is less than the weight before it, %d: owners go back to the running "+
				"revision", weight)
		case next == weight:
			found.warn(path.Child("setWeight"), "has no effect: the weight is %d already", weight)
		}
		weight, paused = *step.SetWeight, false
	}
	if !paused && weight < 100 {
		found.warn(path.Index(len(steps)-1).Child("setWeight"), "no pause follows: the new revision decides all pods "+
			"at once")
	}
}

// warnPause reports a pause during which there are not two revisions to compare.
func warnPause(weight int32, path *field.Path, found *problems) {
	switch weight {
	case 0:
		found.warn(path, "lasts until the user promotes the roll-out, because no owner has the new revision yet: "+
			"set a weight first")
	case 100:
		found.warn(path, "compares nothing, because all owners have the new revision: after the last step it decides "+
			"all pods anyway")
	}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// comparison holds what the objects resolve to before and after a change. The objects before the
// change are resolved on demand, once: resolving is what a review costs.
type comparison struct {
	before func() *resolve.Resolution
	after  *resolve.Resolution
}

func compare(before, after resolve.Input) comparison {
	return comparison{before: sync.OnceValue(func() *resolve.Resolution { return resolve.Objects(before) }),
		after: resolve.Objects(after)}
}

// verdict returns the response for the changed object, whose result is one of results.
func (c comparison) verdict(kind, name string, results map[string]resolve.Result) admission.Response {
	result := results[name]
	if len(result.Problems) > 0 {
		return denied(kind, name, result.Problems)
	}
	var warnings []string
	for _, problem := range slices.Concat(result.Obstacles, result.Warnings) {
		warnings = append(warnings, problem.String())
	}
	warnings = append(warnings, c.newlyRejected(kind, name)...)
	if kind == "SchedulingPolicy" {
		warnings = append(warnings, c.changed(name)...)
	}
	return admission.Allowed("").WithWarnings(warnings...)
}

// changed returns a warning about the profiles that change with a policy. They need not reference
// it: profiles without a policyRef build on the policy "default", if it exists.
func (c comparison) changed(policy string) []string {
	if len(c.after.PolicyResults[policy].Profiles) == 0 {
		return nil
	}
	changed := resolve.Changed(c.before(), c.after)
	if len(changed) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("this change of SchedulingPolicy %q changes the SchedulerProfiles that build on it: %s",
		policy, some(changed))}
}

// maxNames is the number of names in a warning: the API server cuts long warnings.
const maxNames = 8

// some lists names, but not too many.
func some(names []string) string {
	if more := len(names) - maxNames; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), more)
	}
	return strings.Join(names, ", ")
}

// newlyRejected returns a warning for each other object that is no longer accepted.
func (c comparison) newlyRejected(kind, name string) (warnings []string) {
	profiles, policies := rejected(c.after.ProfileResults), rejected(c.after.PolicyResults)
	if kind == "SchedulerProfile" {
		delete(profiles, name)
	} else {
		delete(policies, name)
	}
	if len(profiles)+len(policies) == 0 {
		return nil
	}
	before := c.before()
	return append(
		noLongerAccepted("SchedulerProfile", before.ProfileResults, profiles),
		noLongerAccepted("SchedulingPolicy", before.PolicyResults, policies)...)
}

// rejected returns the results that are not accepted.
func rejected(results map[string]resolve.Result) map[string]resolve.Result {
	rejected := maps.Clone(results)
	maps.DeleteFunc(rejected, func(_ string, result resolve.Result) bool { return result.Accepted })
	return rejected
}

// noLongerAccepted returns a warning for each rejected object that was accepted before.
func noLongerAccepted(kind string, before, rejected map[string]resolve.Result) (warnings []string) {
	for _, name := range slices.Sorted(maps.Keys(rejected)) {
		if before[name].Accepted {
			warnings = append(warnings,
				fmt.Sprintf("%s %q is no longer accepted with this change: %s", kind, name, rejected[name].Message))
		}
	}
	return warnings
}

// denied returns a response that denies the request and names every problem with its field, in the
// API server's form.
func denied(kind, name string, problems []resolve.Problem) admission.Response {
	status := Invalid(kind, name, problems).ErrStatus
	response := admission.ValidationResponse(false, "")
	response.Result = &status
	response.Result.Code = http.StatusUnprocessableEntity
	return response
}

// Invalid returns the error of an object with problems, as the API server reports them.
func Invalid(kind, name string, problems []resolve.Problem) *apierrors.StatusError {
	var errs field.ErrorList
	for _, problem := range problems {
		kind, detail := errorType(problem)
		errs = append(errs, &field.Error{Type: kind, Field: problem.Path, BadValue: field.OmitValueType{},
			Detail: detail})
	}
	return apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind(kind).GroupKind(), name, errs)
}

// errorType returns the API server's type of a problem, and its detail without the type.
// kube-scheduler's details begin with the type.
func errorType(problem resolve.Problem) (field.ErrorType, string) {
	for _, t := range []field.ErrorType{
		field.ErrorTypeInvalid, field.ErrorTypeRequired, field.ErrorTypeNotSupported, field.ErrorTypeDuplicate,
		field.ErrorTypeForbidden,
		field.ErrorTypeNotFound, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid,
		field.ErrorTypeInternal,
	} {
		if detail, cut := strings.CutPrefix(problem.Detail, t.String()+": "); cut {
			return t, detail
		}
	}
	if problem.Reason == v1alpha1.ReasonUnknownPlugin {
		return field.ErrorTypeNotSupported, problem.Detail
	}
	return field.ErrorTypeInvalid, problem.Detail
}

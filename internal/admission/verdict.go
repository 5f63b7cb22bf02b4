// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/config"
)

// comparison holds the resolutions without and with a change.
type comparison struct{ before, after *config.Resolution }

func compare(before, after *config.Resolution) comparison { return comparison{before, after} }

// verdict returns the response for the changed object, whose result is one of results.
func (c comparison) verdict(kind, name string, results map[string]config.Result) admission.Response {
	result := results[name]
	if len(result.Problems) > 0 {
		return denied(kind, name, result.Problems)
	}
	var warnings []string
	for _, problem := range slices.Concat(result.Obstacles, result.Warnings) {
		warnings = append(warnings, problem.String())
	}
	warnings = append(warnings, c.newlyRejected("SchedulerProfile", kind, name, c.before.ProfileResults, c.after.ProfileResults)...)
	warnings = append(warnings, c.newlyRejected("SchedulingPolicy", kind, name, c.before.PolicyResults, c.after.PolicyResults)...)
	return admission.Allowed("").WithWarnings(warnings...)
}

// newlyRejected returns a warning for each other object that is no longer accepted.
func (c comparison) newlyRejected(kind, changedKind, changed string, before, after map[string]config.Result) (warnings []string) {
	for _, name := range slices.Sorted(maps.Keys(after)) {
		itself := kind == changedKind && name == changed
		if !itself && before[name].Accepted && !after[name].Accepted {
			warnings = append(warnings, fmt.Sprintf("%s %q is no longer accepted with this change: %s", kind, name, after[name].Message))
		}
	}
	return warnings
}

// denied returns a response that denies the request and names every problem with its field, in the
// API server's form.
func denied(kind, name string, problems []config.Problem) admission.Response {
	var errs field.ErrorList
	for _, problem := range problems {
		kind, detail := errorType(problem)
		errs = append(errs, &field.Error{Type: kind, Field: problem.Path, BadValue: field.OmitValueType{}, Detail: detail})
	}
	status := apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind(kind).GroupKind(), name, errs).ErrStatus
	response := admission.ValidationResponse(false, "")
	response.Result = &status
	response.Result.Code = http.StatusUnprocessableEntity
	return response
}

// errorType returns the API server's type of a problem, and its detail without the type.
// kube-scheduler's details begin with the type.
func errorType(problem config.Problem) (field.ErrorType, string) {
	for _, t := range []field.ErrorType{
		field.ErrorTypeInvalid, field.ErrorTypeRequired, field.ErrorTypeNotSupported, field.ErrorTypeDuplicate, field.ErrorTypeForbidden,
		field.ErrorTypeNotFound, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid, field.ErrorTypeInternal,
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

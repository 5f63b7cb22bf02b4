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

// comparison is what was resolved without a change, and with it.
type comparison struct{ before, after *config.Resolution }

func compare(before, after *config.Resolution) comparison { return comparison{before, after} }

// verdict is the answer about the object that changed, one of results.
func (c comparison) verdict(kind, name string, results map[string]config.Result) admission.Response {
	result := results[name]
	if len(result.Problems) > 0 {
		return denied(kind, name, result.Problems)
	}
	var warnings []string
	for _, problem := range slices.Concat(result.Obstacles, result.Warnings) {
		warnings = append(warnings, problem.String())
	}
	warnings = append(warnings, c.victims("SchedulerProfile", kind, name, c.before.ProfileResults, c.after.ProfileResults)...)
	warnings = append(warnings, c.victims("SchedulingPolicy", kind, name, c.before.PolicyResults, c.after.PolicyResults)...)
	return admission.Allowed("").WithWarnings(warnings...)
}

// victims are the other objects that are not accepted any more.
func (c comparison) victims(kind, changedKind, changed string, before, after map[string]config.Result) (warnings []string) {
	for _, name := range slices.Sorted(maps.Keys(after)) {
		itself := kind == changedKind && name == changed
		if !itself && before[name].Accepted && !after[name].Accepted {
			warnings = append(warnings, fmt.Sprintf("%s %q is no longer accepted with this change: %s", kind, name, after[name].Message))
		}
	}
	return warnings
}

// denied names every problem with its field, in the words and the form in which the API server
// does.
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

// errorType is the API server's type of a problem. Details that are kube-scheduler's begin with it.
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

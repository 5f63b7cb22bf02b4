// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/livesched/livesched/api/v1alpha1"
)

// The defaults of Options.
const (
	// DefaultSchedulerName is the scheduler name of pods that name none.
	DefaultSchedulerName = "default-scheduler"
	// DefaultPolicyName is the SchedulingPolicy of profiles that reference none.
	DefaultPolicyName = "default"
	// DefaultNamespace is the one that livesched runs in.
	DefaultNamespace = "livesched-system"
)

// Options say what the input does not.
type Options struct {
	// Registered are the names of the plugins that livesched has. Others are left out.
	Registered sets.Set[string]
	// SchedulerName is the scheduler name of a legacy policy, which does not have it
	// (kube-scheduler had it from its flag --scheduler-name). Empty: DefaultSchedulerName.
	SchedulerName string
	// PolicyName is the name of the SchedulingPolicy. Empty: DefaultPolicyName.
	PolicyName string
	// Namespace is that of the Secrets with the TLS material of extenders. Empty: DefaultNamespace.
	Namespace string
}

// Result is what came of the input.
type Result struct {
	// Objects, in the order in which they are to be applied.
	Secrets  []corev1.Secret
	Policies []v1alpha1.SchedulingPolicy
	Profiles []v1alpha1.SchedulerProfile
	// Remarks on the input, in its order.
	Remarks []Remark
}

// Losses counts the remarks that are losses.
func (r *Result) Losses() int {
	count := 0
	for _, remark := range r.Remarks {
		if remark.Severity == Loss {
			count++
		}
	}
	return count
}

// Severity is how much a remark matters.
type Severity string

const (
	// Loss is what the objects do not say any more: without further steps, something works in
	// another way.
	Loss Severity = "loss"
	// Note is what was taken care of, or what is good to know.
	Note Severity = "note"
)

// Remark is a remark on one field of the input.
type Remark struct {
	Severity Severity `json:"severity"`
	// File and Line where the field is. Line is 0 where the text cannot tell.
	File string `json:"file"`
	Line int    `json:"line,omitempty"`
	// Path of the field.
	Path string `json:"path"`
	// Detail says what becomes of it, and what to do about it.
	Detail string `json:"detail"`
}

func (r Remark) String() string {
	place := r.File
	if r.Line > 0 {
		place = fmt.Sprintf("%s:%d", r.File, r.Line)
	}
	return fmt.Sprintf("%s: %s: %s: %s", place, r.Severity, r.Path, r.Detail)
}

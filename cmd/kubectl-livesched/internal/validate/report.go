// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package validate checks files of SchedulerProfiles and SchedulingPolicies without applying them:
// what the API server would refuse, and what the controller would not accept, with the same code.
package validate

import (
	"fmt"
	"slices"
)

// Severity is how much a finding matters.
type Severity string

const (
	// Error is what keeps an object from being applied or accepted.
	Error Severity = "error"
	// Warning is what is legal but unwise, and what cannot be judged from the files.
	Warning Severity = "warning"
)

// Finding is one thing about an object.
type Finding struct {
	Severity Severity `json:"severity"`
	// Reason is that of the condition Accepted, empty where the API server would refuse the object,
	// and for warnings.
	Reason string `json:"reason,omitempty"`
	// Path of the field, such as spec.pluginConfig[1].args.
	Path string `json:"path"`
	// Line of the file, 0 where it is not known.
	Line int `json:"line,omitempty"`
	// Detail says what is wrong, and what is allowed.
	Detail string `json:"detail"`
}

// Object is an object that was checked.
type Object struct {
	// File, Document and Line where the object is. An object of the cluster has none.
	File     string `json:"file,omitempty"`
	Document int    `json:"document,omitempty"`
	Line     int    `json:"line,omitempty"`

	Kind     string    `json:"kind"`
	Name     string    `json:"name"`
	Findings []Finding `json:"findings,omitempty"`
}

// Place says where the object is.
func (o *Object) Place() string {
	if o.File == "" {
		return "cluster"
	}
	place := fmt.Sprintf("%s:%d", o.File, o.Line)
	if o.Document > 1 {
		place += fmt.Sprintf(" (document %d)", o.Document)
	}
	return place
}

// Report is what was found.
type Report struct {
	Objects []Object `json:"objects"`
	// Skipped says which objects are none of livesched's.
	Skipped []string `json:"skipped,omitempty"`
}

// Count counts the findings of a severity.
func (r *Report) Count(severity Severity) int {
	count := 0
	for _, object := range r.Objects {
		for _, finding := range object.Findings {
			if finding.Severity == severity {
				count++
			}
		}
	}
	return count
}

// at says whether there is already an error at a path: one is enough.
func (o *Object) at(path string) bool {
	return slices.ContainsFunc(o.Findings, func(f Finding) bool { return f.Severity == Error && f.Path == path })
}

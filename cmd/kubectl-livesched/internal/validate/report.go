// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package validate checks SchedulerProfiles and SchedulingPolicies in files without applying them.
// It finds what the API server would reject and what the controller would not accept, with the same
// code.
package validate

import (
	"slices"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/manifests"
)

// Severity is the severity of a finding.
type Severity string

const (
	// Error keeps an object from being stored or accepted.
	Error Severity = "error"
	// Warning marks a setting that is valid but inadvisable, or that the files alone cannot
	// confirm.
	Warning Severity = "warning"
)

// Finding is an error or warning about an object.
type Finding struct {
	Severity Severity `json:"severity"`
	// Reason is the reason of the condition Accepted. It is empty for warnings and if the API
	// server would reject the object.
	Reason string `json:"reason,omitempty"`
	// Path of the field, such as spec.pluginConfig[1].args.
	Path string `json:"path"`
	// Line of the file, 0 if it is not known.
	Line int `json:"line,omitempty"`
	// Detail describes the problem, and what is allowed.
	Detail string `json:"detail"`
}

// Object is a checked object with its findings.
type Object struct {
	// File, Document and Line locate the object. An object of the cluster has none of them.
	File     string `json:"file,omitempty"`
	Document int    `json:"document,omitempty"`
	Line     int    `json:"line,omitempty"`

	Kind     string    `json:"kind"`
	Name     string    `json:"name"`
	Findings []Finding `json:"findings,omitempty"`
}

// Place returns the location of the object in a readable form.
func (o *Object) Place() string {
	if o.File == "" {
		return "cluster"
	}
	return manifests.Place(o.File, o.Line, o.Document)
}

// Valid reports whether the object has no error.
func (o *Object) Valid() bool {
	return !slices.ContainsFunc(o.Findings, func(f Finding) bool { return f.Severity == Error })
}

// Report is the result of a check.
type Report struct {
	Objects []Object `json:"objects"`
	// Skipped has a message for each object that is not one of livesched's.
	Skipped []string `json:"skipped,omitempty"`
}

// Count returns the number of findings of a severity.
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

// Has reports whether a finding has a reason.
func (r *Report) Has(reason string) bool {
	return slices.ContainsFunc(r.Objects, func(o Object) bool {
		return slices.ContainsFunc(o.Findings, func(f Finding) bool { return f.Reason == reason })
	})
}

// hasErrorAt reports whether the object has an error at a path. One for each path is enough.
func (o *Object) hasErrorAt(path string) bool {
	return slices.ContainsFunc(o.Findings, func(f Finding) bool { return f.Severity == Error && f.Path == path })
}

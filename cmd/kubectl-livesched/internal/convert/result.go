// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"bytes"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// The defaults of Options.
const (
	// DefaultSchedulerName is the scheduler name of pods that do not set one.
	DefaultSchedulerName = "default-scheduler"
	// DefaultNamespace is the namespace that livesched runs in.
	DefaultNamespace = "livesched-system"
)

// Options supplements the input.
type Options struct {
	// Registered are the names of the plugins that livesched has. Other plugins are left out.
	Registered sets.Set[string]
	// AllowedHosts are the hosts that livesched allows extenders to be at. The zero value allows
	// none.
	AllowedHosts resolve.AllowedHosts
	// SchedulerName is the scheduler name for a legacy policy, which does not contain one
	// (kube-scheduler had the flag --scheduler-name). Default: DefaultSchedulerName.
	SchedulerName string
	// PolicyName is the name of the SchedulingPolicy. Default: the name of the profile or, if there
	// are several, the name of the ConfigMap or file.
	PolicyName string
	// Namespace is the namespace of the Secrets with the TLS material of extenders. Default:
	// DefaultNamespace.
	Namespace string
}

// Result is the result of a conversion.
type Result struct {
	// The objects, in the order in which to apply them.
	Secrets  []corev1.Secret
	Policies []v1alpha1.SchedulingPolicy
	Profiles []v1alpha1.SchedulerProfile
	// Remarks on the input, in its order.
	Remarks []Remark
}

// Losses returns the number of remarks that are losses.
func (r *Result) Losses() int {
	count := 0
	for _, remark := range r.Remarks {
		if remark.Severity == Loss {
			count++
		}
	}
	return count
}

// Severity is the severity of a remark.
type Severity string

const (
	// Loss marks a setting that the objects do not have: the scheduler works differently until the
	// user acts.
	Loss Severity = "loss"
	// Note marks something that needs no action.
	Note Severity = "note"
)

// Remark is a remark on one field of the input.
type Remark struct {
	Severity Severity `json:"severity"`
	// File and Line locate the field. Line is 0 if it is not known.
	File string `json:"file"`
	Line int    `json:"line,omitempty"`
	// Path of the field.
	Path string `json:"path"`
	// Detail explains how the field was converted, and what to do.
	Detail string `json:"detail"`
}

func (r Remark) String() string {
	place := r.File
	if r.Line > 0 {
		place = fmt.Sprintf("%s:%d", r.File, r.Line)
	}
	return fmt.Sprintf("%s: %s: %s: %s", place, r.Severity, r.Path, r.Detail)
}

// YAML returns all objects as documents of one file, in the order in which to apply them.
func (r *Result) YAML() ([]byte, error) {
	var objects []any
	for i := range r.Secrets {
		objects = append(objects, &r.Secrets[i])
	}
	for i := range r.Policies {
		objects = append(objects, &r.Policies[i])
	}
	for i := range r.Profiles {
		objects = append(objects, &r.Profiles[i])
	}
	var out bytes.Buffer
	for i, object := range objects {
		if i > 0 {
			out.WriteString("---\n")
		}
		text, err := yaml.Marshal(object)
		if err != nil {
			return nil, err
		}
		out.Write(text)
	}
	return out.Bytes(), nil
}

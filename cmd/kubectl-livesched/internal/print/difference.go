// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package print

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
	"github.com/livesched/livesched/internal/history"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// Side is one side of a comparison: a profile or a policy.
type Side struct {
	// Label describes the side to the user.
	Label string
	// Description is the resolved profile. It is nil if there is no such profile, if it cannot be
	// resolved, and for a policy.
	Description *resolve.Description
	// Specs are the specs that the side was written as, by profile and policy. It is empty if there
	// is no such object.
	Specs map[string]any
	// Invalid is why the side cannot be resolved, or is not active although it is applied.
	Invalid string
}

// Difference is the output for one object in JSON and YAML.
type Difference struct {
	// One of these is set.
	Profile string `json:"profile,omitempty"`
	Policy  string `json:"policy,omitempty"`

	Differs bool   `json:"differs"`
	From    string `json:"from"`
	To      string `json:"to"`
	// Before and After are resolved profiles. If one cannot be resolved, both are the specs of the
	// profile and its policy, as they are for a policy.
	Before any `json:"before"`
	After  any `json:"after"`
	// Invalid has the reasons why sides are not accepted, or cannot be resolved.
	Invalid []string `json:"invalid,omitempty"`
}

// NewDifference compares two sides of an object.
func NewDifference(kind, name string, from, to Side) Difference {
	d := Difference{Profile: name, From: from.Label, To: to.Label}
	if kind == history.KindPolicy {
		d.Profile, d.Policy = "", name
	}
	resolved := kind == history.KindProfile
	for _, s := range []*Side{&from, &to} {
		if s.Invalid != "" {
			d.Invalid = append(d.Invalid, s.Label+": "+s.Invalid)
		}
		resolved = resolved && (s.Description != nil || len(s.Specs) == 0)
	}
	d.Before, d.After = from.value(resolved), to.value(resolved)
	d.Differs = text(d.Before) != text(d.After)
	return d
}

// value returns what is compared, nil if there is no such object.
func (s *Side) value(resolved bool) any {
	switch {
	case resolved && s.Description != nil:
		return s.Description
	case !resolved && len(s.Specs) > 0:
		return s.Specs
	}
	return nil
}

// text returns a value as YAML, whose lines can be compared.
func text(value any) string {
	if value == nil {
		return ""
	}
	text, err := yaml.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// object returns the name of the object with its kind.
func (d *Difference) object() string {
	if d.Policy != "" {
		return "schedulingpolicy/" + d.Policy
	}
	return "schedulerprofile/" + d.Profile
}

// Print prints the difference to out, and what is not a difference to errOut.
func (d *Difference) Print(out, errOut io.Writer) error {
	for _, invalid := range d.Invalid {
		Line(errOut, d.object()+": "+invalid)
	}
	if !d.Differs {
		_, err := fmt.Fprintf(errOut, "%s: %s and %s are the same\n", d.object(), d.From, d.To)
		return err
	}
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: slices.Collect(strings.Lines(text(d.Before))), B: slices.Collect(strings.Lines(text(d.After))),
		FromFile: d.object() + ": " + d.From, ToFile: d.object() + ": " + d.To,
		Context: 3,
	})
	if err != nil {
		return err
	}
	return terminal.Of(out).Diff(text)
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/pmezard/go-difflib/difflib"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
	"github.com/livesched/livesched/internal/history"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// side is one side of a comparison: a profile or a policy.
type side struct {
	// label describes the side to the user.
	label string
	// description is the resolved profile. It is nil if there is no such profile, if it cannot be
	// resolved, and for a policy.
	description *resolve.Description
	// specs are the specs that the side was written as, by profile and policy. It is empty if there
	// is no such object.
	specs map[string]any
	// invalid says why the side cannot be resolved, or is not active although it is applied.
	invalid string
}

// difference is the output for one object in JSON and YAML.
type difference struct {
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
	// Invalid says why sides are not accepted, or cannot be resolved.
	Invalid []string `json:"invalid,omitempty"`
}

func newDifference(kind, name string, from, to side) difference {
	d := difference{Profile: name, From: from.label, To: to.label}
	if kind == history.KindPolicy {
		d.Profile, d.Policy = "", name
	}
	resolved := kind == history.KindProfile
	for _, s := range []*side{&from, &to} {
		if s.invalid != "" {
			d.Invalid = append(d.Invalid, s.label+": "+s.invalid)
		}
		resolved = resolved && (s.description != nil || len(s.specs) == 0)
	}
	d.Before, d.After = from.value(resolved), to.value(resolved)
	d.Differs = text(d.Before) != text(d.After)
	return d
}

// value returns what is compared, nil if there is no such object.
func (s *side) value(resolved bool) any {
	switch {
	case resolved && s.description != nil:
		return s.description
	case !resolved && len(s.specs) > 0:
		return s.specs
	}
	return nil
}

// text returns a value as YAML, whose lines can be compared.
func text(value any) string {
	if value == nil {
		return ""
	}
	// Through JSON, so that arguments become fields instead of bytes.
	raw, err := json.Marshal(value)
	var fields map[string]any
	if err == nil {
		err = json.Unmarshal(raw, &fields)
	}
	var out bytes.Buffer
	if err == nil {
		err = writeAs(&out, formatYAML, fields)
	}
	if err != nil {
		return err.Error()
	}
	return out.String()
}

// object returns the name of the object with its kind.
func (d *difference) object() string {
	if d.Policy != "" {
		return "schedulingpolicy/" + d.Policy
	}
	return "schedulerprofile/" + d.Profile
}

// print prints the difference to out, and what is not a difference to errOut.
func (d *difference) print(out, errOut io.Writer) error {
	for _, invalid := range d.Invalid {
		writeLine(errOut, d.object()+": "+invalid)
	}
	if !d.Differs {
		_, err := fmt.Fprintf(errOut, "%s: %s and %s are the same\n", d.object(), d.From, d.To)
		return err
	}
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: lines(text(d.Before)), B: lines(text(d.After)),
		FromFile: d.object() + ": " + d.From, ToFile: d.object() + ": " + d.To,
		Context: 3,
	})
	if err != nil {
		return err
	}
	return terminal.Of(out).Diff(text)
}

// lines splits a text into lines. An empty text has no lines.
func lines(text string) []string {
	if text == "" {
		return nil
	}
	split := difflib.SplitLines(text)
	return split[:len(split)-1] // SplitLines adds an empty line at the end
}

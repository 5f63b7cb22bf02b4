// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
)

// The widths of columns that keep the lines of a narrow table within 100 characters.
const (
	maxName       = 30
	maxPolicyName = 20
	maxProfiles   = 40
)

// print prints the report in the format that the user chose.
func (o *statusOptions) print(report *statusReport) error {
	if isData(o.output) {
		return writeAs(o.Out, o.output, report)
	}
	wide := o.output == formatWide
	if len(report.Profiles) == 0 {
		_, _ = fmt.Fprintln(o.Out, "There are no SchedulerProfiles.")
	} else if err := o.printProfiles(report.Profiles, wide); err != nil {
		return err
	}
	if len(report.Policies) > 0 {
		_, _ = fmt.Fprintln(o.Out)
		if err := o.printPolicies(report.Policies, wide); err != nil {
			return err
		}
	}
	for _, p := range report.Profiles {
		o.printProblems("schedulerprofile/"+p.Name, p.Problems)
	}
	for _, p := range report.Policies {
		o.printProblems("schedulingpolicy/"+p.Name, p.Problems)
	}
	if wide {
		_, _ = fmt.Fprintf(o.Out, "\nPods: %s.\n", report.PodsFrom)
	}
	return nil
}

func (o *statusOptions) printProfiles(profiles []profileStatus, wide bool) error {
	var rows [][]string
	t := terminal.Of(o.Out)
	if wide {
		for i := range profiles {
			rows = append(rows, profiles[i].wideRow(t))
		}
		return writeTable(o.Out, []string{
			"PROFILE", "READY", "SCHEDULER NAME", "ACCEPTED", "PROGRAMMED", "REVISION", "SINCE", "GENERATION", "POLICY",
			"ACTIVE", "BACKOFF", "UNSCHEDULABLE", "GATED",
		}, rows)
	}
	for i := range profiles {
		p := &profiles[i]
		rows = append(rows, []string{
			cut(t, p.Name, maxName), t.Condition(p.Ready), orNone(p.Revision), cut(t, p.policy(), maxPolicyName), fmt.Sprint(p.Pods.pending()), fmt.Sprint(p.Pods.Unschedulable),
		})
	}
	return writeTable(o.Out, []string{"PROFILE", "READY", "REVISION", "POLICY", "PENDING", "UNSCHEDULABLE"}, rows)
}

func (o *statusOptions) printPolicies(policies []policyStatus, wide bool) error {
	var rows [][]string
	t := terminal.Of(o.Out)
	for _, p := range policies {
		profiles := orNone(strings.Join(p.Profiles, ","))
		if wide {
			rows = append(rows, []string{p.Name, t.Condition(p.Ready), t.Condition(p.Accepted), t.Condition(p.Programmed), fmt.Sprint(p.Generation), profiles})
		} else {
			rows = append(rows, []string{cut(t, p.Name, maxName), t.Condition(p.Ready), fmt.Sprint(p.Generation), cut(t, profiles, maxProfiles)})
		}
	}
	if wide {
		return writeTable(o.Out, []string{"POLICY", "READY", "ACCEPTED", "PROGRAMMED", "GENERATION", "PROFILES"}, rows)
	}
	return writeTable(o.Out, []string{"POLICY", "READY", "GENERATION", "PROFILES"}, rows)
}

// wideRow returns the row of a profile in the wide table.
func (p *profileStatus) wideRow(t *terminal.Terminal) []string {
	since, generation := none, fmt.Sprint(p.Generation)
	if !p.Since.IsZero() {
		since = duration.HumanDuration(time.Since(p.Since.Time))
	}
	if p.ActiveGeneration != p.Generation && p.ActiveGeneration != 0 {
		generation = fmt.Sprintf("%d (%d active)", p.Generation, p.ActiveGeneration)
	}
	row := []string{
		p.Name, t.Condition(p.Ready), p.SchedulerName, t.Condition(p.Accepted), t.Condition(p.Programmed), orNone(p.Revision), since, generation, p.policy(),
	}
	return append(row, p.Pods.row()...)
}

// policy describes the policy that a profile builds on, with its active generation.
func (p *profileStatus) policy() string {
	switch {
	case p.PolicyGeneration > 0:
		return fmt.Sprintf("%s@%d", p.Policy, p.PolicyGeneration)
	case p.ActiveGeneration > 0 && p.Policy == defaultPolicy:
		return "built-in"
	}
	return p.Policy
}

// none is the output for a missing value.
const none = "-"

func orNone(text string) string {
	if text == "" {
		return none
	}
	return text
}

// cut shortens a text to a number of characters, and to more of them on a terminal with more than
// 100 columns, of which a row has two such texts.
func cut(t *terminal.Terminal, text string, limit int) string {
	limit += max(t.Width()-100, 0) / 2
	if characters := []rune(text); len(characters) > limit {
		return string(characters[:limit-1]) + "…"
	}
	return text
}

func (o *statusOptions) printProblems(object string, problems []string) {
	for _, problem := range problems {
		t := terminal.Of(o.Out)
		_, _ = fmt.Fprintln(t)
		t.Entry("", "  ", t.Bad(object)+": "+problem)
	}
}

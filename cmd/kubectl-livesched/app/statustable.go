// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/print"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
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
	if report.PodsUnknown != "" {
		_, _ = fmt.Fprintln(o.Out)
		terminal.Of(o.Out).Entry("", "  ", "The numbers of pods are unknown: "+report.PodsUnknown)
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
		pending, unschedulable := print.None, print.None
		if p.Pods != nil {
			pending, unschedulable = fmt.Sprint(p.Pods.pending()), fmt.Sprint(p.Pods.Unschedulable)
		}
		rows = append(rows, []string{p.Name, t.Condition(p.Ready), cmp.Or(p.Revision, print.None), p.policy(), pending, unschedulable})
	}
	header := []string{"PROFILE", "READY", "REVISION", "POLICY", "PENDING", "UNSCHEDULABLE"}
	return writeTable(o.Out, header, fitted(t.Width(), header, rows, 0, 3))
}

func (o *statusOptions) printPolicies(policies []policyStatus, wide bool) error {
	var rows [][]string
	t := terminal.Of(o.Out)
	for _, p := range policies {
		profiles := cmp.Or(strings.Join(p.Profiles, ","), print.None)
		if wide {
			rows = append(rows, []string{p.Name, t.Condition(p.Ready), t.Condition(p.Accepted), t.Condition(p.Programmed), fmt.Sprint(p.Generation), profiles})
		} else {
			rows = append(rows, []string{p.Name, t.Condition(p.Ready), fmt.Sprint(p.Generation), profiles})
		}
	}
	if wide {
		return writeTable(o.Out, []string{"POLICY", "READY", "ACCEPTED", "PROGRAMMED", "GENERATION", "PROFILES"}, rows)
	}
	header := []string{"POLICY", "READY", "GENERATION", "PROFILES"}
	return writeTable(o.Out, header, fitted(t.Width(), header, rows, 0, 3))
}

// wideRow returns the row of a profile in the wide table.
func (p *profileStatus) wideRow(t *terminal.Terminal) []string {
	since, generation := print.None, fmt.Sprint(p.Generation)
	if !p.Since.IsZero() {
		since = duration.HumanDuration(time.Since(p.Since.Time))
	}
	if p.ActiveGeneration != p.Generation && p.ActiveGeneration != 0 {
		generation = fmt.Sprintf("%d (%d active)", p.Generation, p.ActiveGeneration)
	}
	row := []string{
		p.Name, t.Condition(p.Ready), p.SchedulerName, t.Condition(p.Accepted), t.Condition(p.Programmed), cmp.Or(p.Revision, print.None), since, generation, p.policy(),
	}
	if p.Pods == nil {
		return append(row, print.None, print.None, print.None, print.None)
	}
	return append(row, fmt.Sprint(p.Pods.Active), fmt.Sprint(p.Pods.Backoff), fmt.Sprint(p.Pods.Unschedulable), fmt.Sprint(p.Pods.Gated))
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

const (
	// columnSpace is the space between two columns of a table.
	columnSpace = 3
	// minCut is the least width that a column is cut to.
	minCut = 8
)

// fitted returns the rows of a table with two columns cut so that lines fit a width. The first of
// the two, which has the names of the rows, gets more room.
func fitted(width int, header []string, rows [][]string, first, second int) [][]string {
	widths := make([]int, len(header))
	for _, row := range append([][]string{header}, rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], ansi.StringWidth(cell))
		}
	}
	room := width - columnSpace*(len(header)-1)
	for i := range widths {
		if i != first && i != second {
			room -= widths[i]
		}
	}
	if widths[first]+widths[second] <= room {
		return rows
	}
	toSecond := max(min(widths[second], max(room*2/5, room-widths[first])), minCut)
	toFirst := max(room-toSecond, minCut)
	var out [][]string
	for _, row := range rows {
		row = slices.Clone(row)
		row[first], row[second] = ansi.Truncate(row[first], toFirst, "…"), ansi.Truncate(row[second], toSecond, "…")
		out = append(out, row)
	}
	return out
}

func (o *statusOptions) printProblems(object string, problems []string) {
	for _, problem := range problems {
		t := terminal.Of(o.Out)
		_, _ = fmt.Fprintln(t)
		t.Entry("", "  ", t.Bad(object)+": "+problem)
	}
}

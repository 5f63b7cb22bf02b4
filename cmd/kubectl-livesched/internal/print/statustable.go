// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package print

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// Print prints the status for people.
func (s *Status) Print(w io.Writer, wide bool) error {
	if len(s.Profiles) == 0 {
		_, _ = fmt.Fprintln(w, "There are no SchedulerProfiles.")
	} else if err := printProfiles(w, s.Profiles, wide); err != nil {
		return err
	}
	if len(s.Policies) > 0 {
		_, _ = fmt.Fprintln(w)
		if err := printPolicies(w, s.Policies, wide); err != nil {
			return err
		}
	}
	for i := range s.Profiles {
		p := &s.Profiles[i]
		printProblems(w, "schedulerprofile/"+p.Name, p.Problems)
		p.printShadow(w)
		p.Rollout.printIn(w, p.Name)
	}
	for _, p := range s.Policies {
		printProblems(w, "schedulingpolicy/"+p.Name, p.Problems)
	}
	if s.PodsUnknown != "" {
		_, _ = fmt.Fprintln(w)
		terminal.Of(w).Entry("", "  ", "The numbers of pods are unknown: "+s.PodsUnknown)
	}
	return nil
}

func printProfiles(w io.Writer, profiles []ProfileStatus, wide bool) error {
	var rows [][]string
	t := terminal.Of(w)
	if wide {
		for i := range profiles {
			rows = append(rows, profiles[i].wideRow(t))
		}
		return Table(w, []string{
			"PROFILE", "READY", "SCHEDULER NAME", "ACCEPTED", "PROGRAMMED", "REVISION", "SINCE", "GENERATION", "POLICY",
			"ACTIVE", "BACKOFF", "UNSCHEDULABLE", "GATED",
		}, rows)
	}
	for i := range profiles {
		p := &profiles[i]
		pending, unschedulable := None, None
		if p.Pods != nil {
			pending, unschedulable = fmt.Sprint(p.Pods.Pending()), fmt.Sprint(p.Pods.Unschedulable)
		}
		rows = append(rows, []string{p.Name, t.Condition(p.Ready), cmp.Or(p.Revision, None), p.policy(), pending,
			unschedulable})
	}
	header := []string{"PROFILE", "READY", "REVISION", "POLICY", "PENDING", "UNSCHEDULABLE"}
	return Table(w, header, t.Fit(header, rows, 0, 3))
}

func printPolicies(w io.Writer, policies []PolicyStatus, wide bool) error {
	var rows [][]string
	t := terminal.Of(w)
	for _, p := range policies {
		profiles := cmp.Or(strings.Join(p.Profiles, ","), None)
		if wide {
			rows = append(rows,
				[]string{p.Name, t.Condition(p.Ready), t.Condition(p.Accepted), t.Condition(p.Programmed),
					fmt.Sprint(p.Generation), profiles})
		} else {
			rows = append(rows, []string{p.Name, t.Condition(p.Ready), fmt.Sprint(p.Generation), profiles})
		}
	}
	if wide {
		return Table(w, []string{"POLICY", "READY", "ACCEPTED", "PROGRAMMED", "GENERATION", "PROFILES"}, rows)
	}
	header := []string{"POLICY", "READY", "GENERATION", "PROFILES"}
	return Table(w, header, t.Fit(header, rows, 0, 3))
}

// wideRow returns the row of a profile in the wide table.
func (p *ProfileStatus) wideRow(t *terminal.Terminal) []string {
	since, generation := None, fmt.Sprint(p.Generation)
	if !p.Since.IsZero() {
		since = duration.HumanDuration(time.Since(p.Since.Time))
	}
	if p.ActiveGeneration != p.Generation && p.ActiveGeneration != 0 {
		generation = fmt.Sprintf("%d (%d active)", p.Generation, p.ActiveGeneration)
	}
	row := []string{
		p.Name, t.Condition(p.Ready), cmp.Or(p.SchedulerName, None), t.Condition(p.Accepted), t.Condition(p.Programmed),
		cmp.Or(p.Revision, None), since, generation, p.policy(),
	}
	if p.Pods == nil {
		return append(row, None, None, None, None)
	}
	return append(row, fmt.Sprint(p.Pods.Active), fmt.Sprint(p.Pods.Backoff), fmt.Sprint(p.Pods.Unschedulable),
		fmt.Sprint(p.Pods.Gated))
}

// policy describes the policy that a profile builds on, with its active generation.
func (p *ProfileStatus) policy() string {
	switch {
	case p.PolicyGeneration > 0:
		return fmt.Sprintf("%s@%d", p.Policy, p.PolicyGeneration)
	case p.ActiveGeneration > 0 && p.Policy == resolve.DefaultPolicyName:
		return "built-in"
	}
	return p.Policy
}

func printProblems(w io.Writer, object string, problems []string) {
	t := terminal.Of(w)
	for _, problem := range problems {
		_, _ = fmt.Fprintln(t)
		t.Entry("", "  ", t.Bad(object)+": "+problem)
	}
}

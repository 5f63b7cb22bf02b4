// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package print

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/doctor"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
)

// Diagnosis prints the findings of doctor. Advice that several of them have follows at the end, once.
func Diagnosis(w io.Writer, findings []doctor.Finding) {
	var shared []string
	checks := map[string][]string{} // by advice
	for _, f := range findings {
		if f.Advice == "" {
			continue
		}
		if len(checks[f.Advice]) == 1 {
			shared = append(shared, f.Advice)
		}
		checks[f.Advice] = append(checks[f.Advice], f.Check)
	}
	t := terminal.Of(w)
	styles := map[doctor.State]func(string) string{doctor.Failed: t.Bad, doctor.Warning: t.Warn, doctor.Unknown: t.Warn, doctor.OK: t.Good}
	for _, finding := range findings {
		state := styles[finding.State](fmt.Sprintf("%-8s", finding.State))
		t.Entry(fmt.Sprintf("%s %-17s ", state, finding.Check), strings.Repeat(" ", 27), finding.Message)
		if len(checks[finding.Advice]) == 1 {
			t.Entry(strings.Repeat(" ", 27)+"-> ", strings.Repeat(" ", 30), finding.Advice)
		}
	}
	for _, advice := range shared {
		t.Entry("-> ", "   ", strings.Join(slices.Compact(checks[advice]), ", ")+": "+advice)
	}
}

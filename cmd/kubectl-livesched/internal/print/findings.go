// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package print

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/doctor"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/validate"
	"github.com/livesched/livesched/internal/words"
)

// Report prints the result of a check as text or as commands of GitHub Actions, and to errOut what
// was skipped.
func Report(out, errOut io.Writer, report *validate.Report, format string) error {
	for i := range report.Objects {
		object := &report.Objects[i]
		for j := range object.Findings {
			line := findingLine(object, &object.Findings[j])
			if format == GitHub {
				line = workflowCommand(object, &object.Findings[j])
			}
			_, _ = fmt.Fprintln(out, line)
		}
		if object.Valid() && format == "" {
			_, _ = fmt.Fprintf(out, "%s: %s %s: valid\n", object.Place(), object.Kind, object.Name)
		}
	}
	for _, skipped := range report.Skipped {
		_, _ = fmt.Fprintln(errOut, skipped)
	}
	_, err := fmt.Fprintf(out, "%s: %s, %s\n", words.Many(len(report.Objects), "object"),
		words.Many(report.Count(validate.Error), "error"), words.Many(report.Count(validate.Warning), "warning"))
	return err
}

// findingLine returns a finding as compilers print errors: FILE:LINE: error: TEXT.
func findingLine(object *validate.Object, finding *validate.Finding) string {
	place := "cluster"
	if object.File != "" {
		place = fmt.Sprintf("%s:%d", object.File, cmp.Or(finding.Line, object.Line))
	}
	return fmt.Sprintf("%s: %s: %s %s: %s", place, finding.Severity, object.Kind, object.Name, findingText(finding))
}

// workflowCommand returns a finding as a command of GitHub Actions, which annotates the file.
func workflowCommand(object *validate.Object, finding *validate.Finding) string {
	title := "title=" + escapeProperty(object.Kind+" "+object.Name)
	if object.File != "" {
		title = fmt.Sprintf("file=%s,line=%d,%s", escapeProperty(object.File), cmp.Or(finding.Line, object.Line), title)
	}
	return fmt.Sprintf("::%s %s::%s", finding.Severity, title, escapeData(findingText(finding)))
}

func findingText(finding *validate.Finding) string {
	text := finding.Path + ": " + finding.Detail
	if finding.Reason != "" {
		text += " (" + finding.Reason + ")"
	}
	return text
}

// escapeData escapes the message of a workflow command, and escapeProperty its parameters.
func escapeData(text string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(text)
}

func escapeProperty(text string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(escapeData(text))
}

// Diagnosis prints the findings of doctor. Advice that several of them have follows at the end,
// once.
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
	styles := map[doctor.State]func(string) string{doctor.Failed: t.Bad, doctor.Warning: t.Warn, doctor.Unknown: t.Warn,
		doctor.OK: t.Good}
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

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/validate"
)

// formatGitHub is the output format for GitHub Actions.
const formatGitHub = "github"

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

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// The styles use the 16 colours that each user chooses.
var (
	bad  = ansi.Style{}.ForegroundColor(ansi.Red)
	warn = ansi.Style{}.ForegroundColor(ansi.Yellow)
	good = ansi.Style{}.ForegroundColor(ansi.Green)
	dim  = ansi.Style{}.Faint()
	bold = ansi.Style{}.Bold()
)

// Bad returns a text in red: something failed or is false.
func (t *Terminal) Bad(text string) string { return t.styled(bad, text) }

// Warn returns a text in yellow: it needs attention.
func (t *Terminal) Warn(text string) string { return t.styled(warn, text) }

// Good returns a text in green: something works, or is new.
func (t *Terminal) Good(text string) string { return t.styled(good, text) }

// Dim returns a faint text: a detail.
func (t *Terminal) Dim(text string) string { return t.styled(dim, text) }

// Bold returns a bold text: a title.
func (t *Terminal) Bold(text string) string { return t.styled(bold, text) }

// Condition returns the status of a condition that should be True: False in red, Unknown in yellow.
func (t *Terminal) Condition(status string) string {
	switch status {
	case "False":
		return t.Bad(status)
	case "Unknown":
		return t.Warn(status)
	}
	return status
}

// Diff writes a unified diff: removed lines are red, added ones green, and headers bold.
func (t *Terminal) Diff(text string) error {
	var out strings.Builder
	for line := range strings.Lines(text) {
		content := strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "+++ "):
			content = t.Bold(content)
		case strings.HasPrefix(line, "-"):
			content = t.Bad(content)
		case strings.HasPrefix(line, "+"):
			content = t.Good(content)
		case strings.HasPrefix(line, "@@"):
			content = t.Dim(content)
		}
		out.WriteString(content + "\n")
	}
	_, err := io.WriteString(t, out.String())
	return err
}

func (t *Terminal) styled(style ansi.Style, text string) string {
	if !t.colors || text == "" {
		return text
	}
	return style.Styled(text)
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Line writes a text, wrapped between words. Lines after the first are indented by two columns.
func (t *Terminal) Line(text string) { t.Paragraph("", "  ", text) }

// Paragraph writes a text, wrapped between words, with a prefix of its first line and one of the
// others, such as "  - " and "    " for an item of a list. White space in the text separates words.
func (t *Terminal) Paragraph(first, others, text string) {
	lines := wrap(text, t.width-ansi.StringWidth(first), t.width-ansi.StringWidth(others))
	for i, line := range lines {
		if i > 0 {
			first = others
		}
		_, _ = fmt.Fprintln(t, strings.TrimRight(first+line, " "))
	}
}

// wrap breaks a text between words into a first line and others of these widths. A word that is
// wider has a line of its own. The result has at least one line.
func wrap(text string, first, others int) []string {
	var lines []string
	var line strings.Builder
	used, width := 0, first
	for _, word := range strings.Fields(text) {
		wide := ansi.StringWidth(word)
		switch {
		case line.Len() == 0:
		case used+1+wide > width:
			lines = append(lines, line.String())
			line.Reset()
			used, width = 0, others
		default:
			line.WriteByte(' ')
			used++
		}
		line.WriteString(word)
		used += wide
	}
	return append(lines, line.String())
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Line writes a text, wrapped between words. Lines after the first are indented by two columns.
func (t *Terminal) Line(text string) { t.Paragraph("", "  ", text) }

// Paragraph writes a text, wrapped between words, with a prefix of its first line and one of the
// others, such as "  - " and "    " for an item of a list. White space in the text separates words.
func (t *Terminal) Paragraph(first, others, text string) {
	lines := wrap(text, t.textWidth()-ansi.StringWidth(first), t.textWidth()-ansi.StringWidth(others))
	for i, line := range lines {
		if i > 0 {
			first = others
		}
		_, _ = fmt.Fprintln(t, strings.TrimRight(first+line, " "))
	}
}

// Entry writes a text like Paragraph. Like a row of a table, it is one line without a terminal.
func (t *Terminal) Entry(first, others, text string) {
	if t.tables == 0 {
		_, _ = fmt.Fprintln(t, first+text)
		return
	}
	t.Paragraph(first, others, text)
}

// column matches the first column of a list of names with descriptions.
var column = regexp.MustCompile(`^\s*\S+ {3,}`)

// Text writes a text whose lines are wrapped between words. The parts of a line have its
// indentation, or the indentation of its second column.
func (t *Terminal) Text(text string) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(strings.ReplaceAll(line, "\t", "        "), " \n")
		if ansi.StringWidth(line) <= t.textWidth() {
			_, _ = fmt.Fprintln(t, line) // with the space between its words
			continue
		}
		first := column.FindString(line)
		if first == "" {
			first = line[:len(line)-len(strings.TrimLeft(line, " "))]
		}
		t.Paragraph(first, strings.Repeat(" ", ansi.StringWidth(first)), line[len(first):])
	}
}

// textWidth returns the width of text, which is hard to read on very long lines.
func (t *Terminal) textWidth() int { return min(t.width, maxText) }

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

// Shorten cuts a text between words, so that it takes a number of lines of a width at most.
func Shorten(text string, lines, width int) string {
	const more = " ..."
	all := wrap(text, width, width)
	if len(all) <= lines {
		return text
	}
	last := wrap(strings.Join(all[lines-1:], " "), width-len(more), 1)[0]
	return strings.Join(append(all[:lines-1], last), " ") + more
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"io"
	"math"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// The layout of tables is that of kubectl.
const (
	minColumn = 6 // the least width of a column, with its padding
	padding   = 3
	// minLast is the least width that the last column is wrapped at.
	minLast = 20
)

// Table writes a table with a header; an empty header is left out. The last column is wrapped so
// that lines fit the width of the Terminal, if it has at least 20 columns there. Other columns are
// as wide as their texts: nothing is cut.
func (t *Terminal) Table(header []string, rows [][]string) error {
	all := rows
	if len(header) > 0 && !t.noHeaders {
		all = append([][]string{header}, rows...)
	}
	widths := columnWidths(all)
	var out strings.Builder
	for _, row := range all {
		t.writeRow(&out, row, widths)
	}
	_, err := io.WriteString(t, out.String())
	return err
}

// LastColumn returns how many columns of the terminal the last column of a table has, or a large
// number if rows may have any length.
func (t *Terminal) LastColumn(header []string, rows [][]string) int {
	if !t.Wraps() {
		return math.MaxInt32
	}
	used := 0
	for _, width := range columnWidths(append([][]string{header}, rows...)) {
		used += width
	}
	return max(t.tables-used, 0)
}

// columnWidths returns the width of each column but the last one of each row, with the padding.
func columnWidths(rows [][]string) []int {
	var widths []int
	for _, row := range rows {
		for i := range len(row) - 1 {
			if i == len(widths) {
				widths = append(widths, minColumn)
			}
			widths[i] = max(widths[i], ansi.StringWidth(row[i])+padding)
		}
	}
	return widths
}

func (t *Terminal) writeRow(out *strings.Builder, row []string, widths []int) {
	if len(row) == 0 {
		out.WriteByte('\n')
		return
	}
	var line strings.Builder
	column := 0
	last := len(row) - 1
	for i, cell := range row[:last] {
		line.WriteString(cell)
		line.WriteString(strings.Repeat(" ", widths[i]-ansi.StringWidth(cell)))
		column += widths[i]
	}
	lines := []string{row[last]}
	if room := t.tables - column; room >= minLast && ansi.StringWidth(row[last]) > room {
		lines = wrapStyled(row[last], room)
	}
	for i, text := range lines {
		if i > 0 {
			line.Reset()
			line.WriteString(strings.Repeat(" ", column))
		}
		line.WriteString(text)
		out.WriteString(strings.TrimRight(line.String(), " "))
		out.WriteByte('\n')
	}
}

// wrapStyled wraps a text. A style of the whole text holds for each line, and not for what stands
// to its left.
func wrapStyled(text string, width int) []string {
	lines := wrap(text, width, width)
	end := strings.IndexByte(text, 'm')
	if !strings.HasPrefix(text, "\x1b[") || end < 0 {
		return lines
	}
	for i, line := range lines {
		lines[i] = text[:end+1] + ansi.Strip(line) + ansi.ResetStyle
	}
	return lines
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"io"
	"math"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Tables have the layout of kubectl's tables.
const (
	minColumn = 6 // the least width of a column, with its padding
	padding   = 3
	// minLast is the least width that the last column is wrapped at, and minCut the least width
	// that a column is cut to.
	minLast = 20
	minCut  = 8
)

// Columns are the widths of the columns of a table, with the space after each.
type Columns []int

// ColumnsOf returns columns that are wide enough for a table.
func ColumnsOf(header []string, rows [][]string) (c Columns) {
	c.widen(header)
	for _, row := range rows {
		c.widen(row)
	}
	return c
}

func (c *Columns) widen(row []string) {
	for i, cell := range row {
		if i == len(*c) {
			*c = append(*c, minColumn)
		}
		(*c)[i] = max((*c)[i], ansi.StringWidth(cell)+padding)
	}
}

// Widen makes columns at least as wide as others.
func (c Columns) Widen(others Columns) {
	for i := range min(len(c), len(others)) {
		c[i] = max(c[i], others[i])
	}
}

// sum returns the width of columns with the space between and after them.
func (c Columns) sum() (width int) {
	for _, column := range c {
		width += column
	}
	return width
}

// Table writes a table with a header; an empty header is left out. The last column is wrapped so
// that lines fit the width of the Terminal, if it has at least 20 columns there. Other columns are
// as wide as their texts: nothing is cut.
func (t *Terminal) Table(header []string, rows [][]string) error {
	if t.noHeaders {
		header = nil
	}
	return t.TableIn(ColumnsOf(header, rows), header, rows)
}

// TableIn is Table with columns of these widths.
func (t *Terminal) TableIn(columns Columns, header []string, rows [][]string) error {
	var out strings.Builder
	if len(header) > 0 && !t.noHeaders {
		t.writeRow(&out, header, columns)
	}
	for _, row := range rows {
		t.writeRow(&out, row, columns)
	}
	_, err := io.WriteString(t, out.String())
	return err
}

// LastColumn returns how many columns of the terminal the last column of a table has, or a large
// number if rows may have any length.
func (t *Terminal) LastColumn(columns Columns) int {
	if !t.Wraps() {
		return math.MaxInt32
	}
	return max(t.tables-columns[:len(columns)-1].sum(), 0)
}

// Fits reports whether a table is not wider than text.
func (t *Terminal) Fits(header []string, rows [][]string) bool {
	return ColumnsOf(header, rows).sum()-padding <= t.width
}

// Fit returns the rows of a table with two columns cut so that lines fit the width of text. The
// first of the two, which has the names of the rows, gets more room.
func (t *Terminal) Fit(header []string, rows [][]string, first, second int) [][]string {
	if t.Fits(header, rows) {
		return rows
	}
	columns := ColumnsOf(header, rows)
	room := t.width - padding - (columns.sum() - columns[first] - columns[second])
	toSecond := max(min(columns[second]-padding, max(room*2/5, room-columns[first]+padding)), minCut)
	toFirst := max(room-toSecond, minCut)
	var out [][]string
	for _, row := range rows {
		row = slices.Clone(row)
		row[first], row[second] = ansi.Truncate(row[first], toFirst, "…"), ansi.Truncate(row[second], toSecond, "…")
		out = append(out, row)
	}
	return out
}

func (t *Terminal) writeRow(out *strings.Builder, row []string, widths Columns) {
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

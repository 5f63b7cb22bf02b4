// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
)

// Table is a table for readers.
type Table struct {
	// Title names the content of the table and its unit.
	Title  string
	Header []string
	Rows   [][]string
}

// Add adds a row of cells.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Text writes the table for a terminal.
func (t *Table) Text(to io.Writer) error {
	fmt.Fprintf(to, "%s\n\n", t.Title)
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(t.Header, "\t"))
	for _, row := range t.Rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

// Markdown writes the table for the documentation.
func (t *Table) Markdown(to io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:\n\n", t.Title)
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(t.Header)
	b.WriteString(strings.Repeat("|---", len(t.Header)) + "|\n")
	for _, row := range t.Rows {
		line(row)
	}
	_, err := io.WriteString(to, b.String())
	return err
}

// Number formats a number with its three significant digits, and with commas between thousands. NaN
// is empty.
func Number(x float64) string {
	switch size := math.Abs(x); {
	case math.IsNaN(x):
		return ""
	case size >= 99.95:
		return thousands(fmt.Sprintf("%.0f", x))
	case size >= 9.995:
		return fmt.Sprintf("%.1f", x)
	case size == 0:
		return "0"
	default:
		return fmt.Sprintf("%.2f", x)
	}
}

// Whole formats a number without a fraction.
func Whole(x float64) string {
	if math.IsNaN(x) {
		return ""
	}
	return thousands(fmt.Sprintf("%.0f", x))
}

// Ratio formats x divided by y, empty if one of them is missing.
func Ratio(x, y float64) string {
	if math.IsNaN(x) || math.IsNaN(y) || y == 0 {
		return ""
	}
	return Number(x / y)
}

// thousands puts commas into a whole number.
func thousands(digits string) string {
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package terminal writes text, tables and colours for the terminal that a command writes to:
//
//	file, buffer, Terminal ── Of ──> Terminal ── Line, Paragraph ──> text wrapped at the width
//	                                          ── Table ──> columns, the last one wrapped
//	                                          ── Bad, Warn, Good, ... ──> colours, or the bare text
package terminal

import (
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/term"
)

const (
	// defaultWidth is the width of text whose reader is not a terminal.
	defaultWidth = 80
	// minWidth is the least width that text is wrapped at. A narrower terminal breaks lines itself.
	minWidth = 40
	// maxText is the greatest width that text is wrapped at.
	maxText = 120
)

// ColorMode is the value of the flag --color.
type ColorMode string

// The values of the flag --color.
const (
	// ColorAuto means colours on a terminal, unless NO_COLOR is set or TERM is dumb.
	ColorAuto ColorMode = "auto"
	// ColorAlways and ColorNever hold for every output.
	ColorAlways ColorMode = "always"
	ColorNever  ColorMode = "never"
)

// ParseColorMode returns the mode of that name.
func ParseColorMode(name string) (ColorMode, error) {
	switch mode := ColorMode(name); mode {
	case ColorAuto, ColorAlways, ColorNever:
		return mode, nil
	}
	return "", fmt.Errorf("must be %s, %s or %s, not %q", ColorAuto, ColorAlways, ColorNever, name)
}

// Terminal is a writer that knows how wide its lines are, and whether they may have colours.
type Terminal struct {
	io.Writer
	width int
	// tables is the width of tables, 0 if they are not wrapped.
	tables      int
	interactive bool
	colors      bool
	noHeaders   bool
}

// Of returns the Terminal that a writer is, or one for the writer with colours if it is a terminal.
func Of(w io.Writer) *Terminal { return New(w, ColorAuto) }

// New returns a Terminal for a writer. Lines are as wide as the environment variable COLUMNS or the
// terminal. Without both, text is wrapped at 80 columns, and each row of a table is one line, which
// tools like grep expect. If the writer is a Terminal, New returns it.
func New(w io.Writer, mode ColorMode) *Terminal {
	if t, ok := w.(*Terminal); ok {
		return t
	}
	t := &Terminal{Writer: w, width: defaultWidth}
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		t.interactive = true
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
			t.width, t.tables = width, width
		}
	}
	if width, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && width > 0 {
		t.width, t.tables = width, width
	}
	t.width = max(t.width, minWidth)
	t.colors = mode == ColorAlways || mode == ColorAuto && t.interactive && os.Getenv("NO_COLOR") == "" &&
		os.Getenv("TERM") != "dumb"
	return t
}

// Plain returns a Terminal without colours that wraps text and tables at a width.
func Plain(w io.Writer, width int) *Terminal {
	return &Terminal{Writer: w, width: width, tables: width}
}

// Colored returns a Terminal with colours that wraps text and tables at a width.
func Colored(w io.Writer, width int) *Terminal {
	return &Terminal{Writer: w, width: width, tables: width, colors: true}
}

// WithoutHeaders returns a Terminal that is the same, but whose tables have no headers.
func (t *Terminal) WithoutHeaders() *Terminal {
	without := *t
	without.noHeaders = true
	return &without
}

// Width returns the number of columns of a line. Text is wrapped at 120 columns even on a wider
// terminal.
func (t *Terminal) Width() int { return t.width }

// Wraps returns whether rows of tables are wrapped.
func (t *Terminal) Wraps() bool { return t.tables > 0 }

// Interactive returns whether a person can see what is written at once.
func (t *Terminal) Interactive() bool { return t.interactive }

// Colors returns whether the Terminal shows colours.
func (t *Terminal) Colors() bool { return t.colors }

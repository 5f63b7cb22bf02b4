// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

const indent = "    "

// printer writes the transcript: one line for each step, followed by its indented details.
type printer struct {
	out     io.Writer
	midLine bool // the last Write did not end a line
}

func (p *printer) step(number, of int, title string) {
	fmt.Fprintf(p.out, "\n[%d/%d] %s\n", number, of, title)
}

func (p *printer) printf(format string, args ...any) { fmt.Fprintf(p, format, args...) }

// Write indents every line. A line may arrive in several parts.
func (p *printer) Write(text []byte) (int, error) {
	for line := range bytes.Lines(text) {
		if !p.midLine {
			if err := writeString(p.out, indent); err != nil {
				return 0, err
			}
		}
		if _, err := p.out.Write(line); err != nil {
			return 0, err
		}
		p.midLine = line[len(line)-1] != '\n'
	}
	return len(text), nil
}

// counts lists names with their counts, in order.
func counts(of map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, of[name]))
	}
	return strings.Join(parts, ", ")
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// shorten truncates a message to one line. Messages that list the valid names are longer.
func shorten(message string) string {
	const fits = 90
	if runes := []rune(message); len(runes) > fits {
		return string(runes[:fits]) + "…"
	}
	return message
}

// round rounds a duration for readers.
func round(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}

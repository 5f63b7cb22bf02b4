// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// transcript is what has happened, a line for each event. It keeps the last lines.
type transcript struct {
	began time.Time
	lines []string
}

// maxLines bounds a transcript.
const maxLines = 200_000

func newTranscript() *transcript { return &transcript{began: time.Now()} }

func (t *transcript) add(format string, args ...any) {
	if len(t.lines) == maxLines {
		t.lines = slices.Clone(t.lines[maxLines/2:])
	}
	t.lines = append(t.lines, fmt.Sprintf("%12.6f ", time.Since(t.began).Seconds())+fmt.Sprintf(format, args...))
}

// exchange adds a request and its answer, but not that a lease was renewed, or that an API is not
// served.
func (t *transcript) exchange(x *exchange, a answer) {
	switch {
	case a.err != nil:
		t.add("%v: %v", x, a.err)
	case x.message() == messageLease && a.response.StatusCode == http.StatusOK:
	case a.response.StatusCode == http.StatusNotFound && strings.Count(x.req.URL.Path, "/") == 3:
	default:
		t.add("%v: %d %s", x, a.response.StatusCode, printable(x.body))
	}
}

// printable returns the strings in a body, which may be protobuf.
func printable(body []byte) string {
	const most = 400
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, string(body))
	return text[:min(len(text), most)]
}

func (t *transcript) writeTo(w io.Writer) error {
	for _, line := range t.lines {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// counts are how often things have happened.
type counts map[string]int

func (c counts) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(c)) {
		parts = append(parts, fmt.Sprintf("%s=%d", name, c[name]))
	}
	return strings.Join(parts, " ")
}

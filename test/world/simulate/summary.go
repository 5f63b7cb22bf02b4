// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/livesched/livesched/test/world/runner"
)

// summary is what worlds came to together.
type summary struct {
	worlds    int
	simulated time.Duration
	counts    map[string]int
}

func (s *summary) add(r *runner.Report) {
	s.worlds++
	s.simulated += r.Simulated
	if s.counts == nil {
		s.counts = map[string]int{}
	}
	for name, n := range r.Counts {
		s.counts[name] += n
	}
}

// write writes the summary of worlds that took so long.
func (s *summary) write(w io.Writer, took time.Duration) {
	hours := s.simulated.Hours()
	fmt.Fprintf(w, "%d worlds, %.1f simulated hours, %.1f a minute, %d steps\n\n", s.worlds, hours,
		hours/took.Minutes(), s.counts["steps"])
	fmt.Fprint(w, "| what | how often |\n|---|--:|\n")
	for _, name := range slices.Sorted(maps.Keys(s.counts)) {
		if !strings.HasPrefix(name, faultPrefix) {
			fmt.Fprintf(w, "| %s | %d |\n", name, s.counts[name])
		}
	}
	fmt.Fprintln(w)
	writeFaults(w, s.counts)
}

// faultPrefix is how the names of counts of faults begin. The kind of the fault follows, and then
// the kind of the message, unless the count is that of all messages.
const faultPrefix = "fault: "

// writeFaults writes how often which fault has befallen which kind of message.
func writeFaults(w io.Writer, counts map[string]int) {
	all := map[string]int{}
	for name, n := range counts {
		if fault, ok := strings.CutPrefix(name, faultPrefix); ok {
			all[fault] = n
		}
	}
	cells, messages := map[string]map[string]int{}, map[string]bool{}
	for name, n := range all {
		kind, message := splitFault(all, name)
		if cells[kind] == nil {
			cells[kind] = map[string]int{}
		}
		cells[kind][message] += n
		if message != "" {
			messages[message] = true
		}
	}
	columns := slices.Sorted(maps.Keys(messages))
	fmt.Fprintf(w, "| fault | %s |\n", strings.Join(append(columns, "all"), " | "))
	fmt.Fprintf(w, "|---|%s\n", strings.Repeat("--:|", len(columns)+1))
	for _, kind := range slices.Sorted(maps.Keys(cells)) {
		sum := 0
		fmt.Fprintf(w, "| %s |", kind)
		for _, message := range columns {
			n := cells[kind][message]
			sum += n
			fmt.Fprintf(w, " %d |", n)
		}
		fmt.Fprintf(w, " %d |\n", cmp.Or(cells[kind][""], sum))
	}
}

// splitFault returns the kinds of fault and of message of a count. Both may be several words. The
// name of a count of all messages is the beginning of others.
func splitFault(counts map[string]int, name string) (kind, message string) {
	for other := range counts {
		if strings.HasPrefix(other, name+" ") {
			return name, ""
		}
		if strings.HasPrefix(name, other+" ") && len(other) > len(kind) {
			kind = other
		}
	}
	if kind == "" {
		kind, message, _ = strings.Cut(name, " ")
		return kind, message
	}
	return kind, name[len(kind)+1:]
}

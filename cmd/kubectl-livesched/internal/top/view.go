// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package top

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/print"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
	"github.com/livesched/livesched/internal/words"
)

const (
	// wide is the width from which the revisions of profiles are shown.
	wide = 100
	// other and revision are the widths of the other columns of profiles, with the space between.
	other    = 67
	revision = 13
)

var keys = []string{
	"q, Esc, Ctrl-C       quit",
	"p, Space             pause, and go on",
	"s                    sort profiles: pending, name, placed/s, reloaded",
	"Up, Down, k, j       scroll by a line",
	"PgUp, PgDn           scroll by a page",
	"Home, End, g, G      scroll to the beginning, to the end",
	"?, h                 this help",
	"",
	"Decisions and placed pods a second are averages over at most the last minute.",
	"WAITING has the pods whose last decision gave them no node. Pods whose names",
	"differ in what a controller generates are in one line.",
}

// View returns the frame.
func (m model) View() string { return strings.TrimSuffix(m.text(), "\n") }

// text returns the frame: the head, as many lines of the body as have room, and the keys.
func (m model) text() string {
	lines, body := m.head(), m.body()
	if m.height == 0 {
		return m.join(append(lines, body...))
	}
	body = body[min(m.offset, len(body)):]
	body = body[:min(len(body), m.room())]
	lines = append(lines, body...)
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	return m.join(append(lines, m.styles().Dim("q quit  p pause  s sort: "+m.sort.String()+"  ↑↓ scroll  ? help")))
}

// join ends lines at the edge of the terminal.
func (m model) join(lines []string) string {
	var out strings.Builder
	for _, line := range lines {
		out.WriteString(ansi.Truncate(line, m.width, "…") + "\n")
	}
	return out.String()
}

// room returns the number of lines for the body.
func (m model) room() int { return max(m.height-len(m.head())-1, 1) }

// styles returns a Terminal for styles and for tables that are not wrapped.
func (m model) styles() *terminal.Terminal { return m.terminal(io.Discard) }

func (m model) terminal(w io.Writer) *terminal.Terminal {
	if m.colors {
		return terminal.Colored(w, 0)
	}
	return terminal.Plain(w, 0)
}

// head returns the lines above the tables.
func (m model) head() []string {
	t := m.styles()
	if !m.loaded {
		return []string{t.Bold("livesched") + "  reading...", ""}
	}
	pending := "-"
	if pods, known := m.data.pendingPods(); known {
		pending = count(pods)
	}
	decided, placed, _ := rates(&m.data)
	line := t.Bold("livesched") + m.data.Time.Format("  15:04:05")
	if m.paused {
		line += "  " + t.Warn("paused")
	}
	line += words.Grouped.Sprintf("  %d profiles", len(m.data.Profiles)) +
		fmt.Sprintf("  %s pending  %s decisions/s  %s placed/s", pending, rate(decided), rate(placed))
	lines := []string{line}
	for _, problem := range m.data.Errors {
		lines = append(lines, t.Bad(strings.Join(strings.Fields(problem), " ")))
	}
	return append(lines, "")
}

// body returns the lines that scroll.
func (m model) body() []string {
	if m.help {
		return keys
	}
	if !m.loaded {
		return nil
	}
	var out strings.Builder
	_ = m.terminal(&out).Table(m.profileTable()) // to memory, which does not fail
	if kinds := m.waitingTable(); len(kinds) > 0 {
		_, _ = fmt.Fprintln(&out)
		_ = m.terminal(&out).Table([]string{"WAITING", "PODS", "RESULT", "TRIES", "LAST", "PROFILE"}, kinds)
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

func (m model) profileTable() (header []string, rows [][]string) {
	t := m.styles()
	_, _, placed := rates(&m.data)
	profiles := slices.Clone(m.data.Profiles)
	slices.SortStableFunc(profiles, func(a, b print.ProfileStatus) int {
		by := 0
		switch m.sort {
		case byPending:
			by = cmp.Compare(pending(&b), pending(&a))
		case byPlaced:
			by = cmp.Compare(placed[b.Name], placed[a.Name])
		case byReload:
			by = b.Since.Compare(a.Since.Time)
		}
		return cmp.Or(by, cmp.Compare(a.Name, b.Name))
	})
	header = []string{"PROFILE", "READY", "ACTIVE", "BACKOFF", "UNFIT", "GATED", "PLACED/S", "RELOADED"}
	room := m.width - other
	if m.width >= wide {
		header = append(header, "REVISION")
		room -= revision
	}
	for i := range profiles {
		p := &profiles[i]
		row := []string{ansi.Truncate(p.Name, max(room, 8), "…"), t.Condition(p.Ready)}
		row = append(row, queues(p.Pods)...)
		row = append(row, rate(placed[p.Name]), age(m.data.Time, p.Since.Time))
		if m.width >= wide {
			row = append(row, cmp.Or(p.Revision, "-"))
		}
		rows = append(rows, row)
	}
	return header, rows
}

func (m model) waitingTable() (rows [][]string) {
	for _, w := range kindsThatWait(m.data.Decisions) {
		rows = append(rows, []string{
			ansi.Truncate(w.name, m.width*2/5, "…"), count(w.pods), string(w.result), fmt.Sprint(w.attempts),
			age(m.data.Time, w.last), w.profile,
		})
	}
	return rows
}

// queues returns the columns of the queues.
func queues(p *print.PodCounts) []string {
	if p == nil {
		return []string{"-", "-", "-", "-"}
	}
	return []string{count(p.Active), count(p.Backoff), count(p.Unschedulable), count(p.Gated)}
}

func count[N int | int32](n N) string { return words.Grouped.Sprintf("%d", n) }

func rate(perSecond float64) string { return words.Grouped.Sprintf("%.1f", perSecond) }

func age(now, then time.Time) string {
	if then.IsZero() {
		return "-"
	}
	return duration.HumanDuration(now.Sub(then))
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/print"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
)

// decisionTable prints decisions for people.
type decisionTable struct {
	// namespaces adds their column, and wide those that are only in wide output.
	namespaces, wide bool
	// hidden means that the user may not see the names of nodes.
	hidden bool
	// times prints the time of a decision instead of its age.
	times bool
}

const (
	// leastReason is the room for the last column below which another one is left out.
	leastReason = 32
	// reasonLines is how many lines of the last column a reason takes at most, and narrowest the
	// width of a line if there is no room.
	reasonLines = 3
	narrowest   = 20
)

// print prints decisions in their order.
func (t *decisionTable) print(w io.Writer, decisions []v1alpha1.Decision, now time.Time) error {
	term := terminal.Of(w)
	fits := true
	header, rows := t.header(fits), t.rows(term, decisions, now, fits)
	if !t.wide && term.LastColumn(header, rows) < leastReason {
		fits = false
		header, rows = t.header(fits), t.rows(term, decisions, now, fits)
	}
	if !t.wide {
		shorten(term, header, rows)
	}
	if err := term.Table(header, rows); err != nil {
		return err
	}
	if slices.ContainsFunc(decisions, func(d v1alpha1.Decision) bool { return t.node(&d) == print.HiddenNode }) {
		writeLine(w, print.NodesHidden)
	}
	return nil
}

// shorten cuts the last column after reasonLines lines, unless rows may have any length.
func shorten(term *terminal.Terminal, header []string, rows [][]string) {
	if !term.Wraps() {
		return
	}
	room := max(term.LastColumn(header, rows), narrowest)
	for _, row := range rows {
		last := len(row) - 1
		row[last] = cutAfter(row[last], reasonLines, room)
	}
}

// cutAfter cuts a text between words, so that it takes a number of lines of a width at most.
func cutAfter(text string, lines, width int) string {
	const more = " ..."
	words := strings.Fields(text)
	line, used := 1, 0
	for i, word := range words {
		room := width
		if line == lines && i < len(words)-1 {
			room -= len(more)
		}
		switch wide := ansi.StringWidth(word); {
		case used == 0:
			used = wide
		case used+1+wide <= room:
			used += 1 + wide
		case line == lines:
			return strings.Join(words[:i], " ") + more
		default:
			line, used = line+1, wide
		}
	}
	return text
}

func (t *decisionTable) header(fits bool) []string {
	header := []string{"AGE"}
	if t.times {
		header[0] = "TIME"
	}
	if t.namespaces {
		header = append(header, "NAMESPACE")
	}
	header = append(header, "POD", "RESULT")
	switch {
	case t.wide:
		return append(header, "NODE", "FITS", "SCORE", "TIED", "TRY", "PROFILE", "REASON")
	case fits:
		header = append(header, "FITS")
	}
	return append(header, "NODE OR REASON")
}

func (t *decisionTable) rows(term *terminal.Terminal, decisions []v1alpha1.Decision, now time.Time, fits bool) (rows [][]string) {
	for i := range decisions {
		rows = append(rows, t.row(term, &decisions[i], now, fits))
	}
	return rows
}

func (t *decisionTable) row(term *terminal.Terminal, d *v1alpha1.Decision, now time.Time, fits bool) []string {
	row := []string{duration.HumanDuration(now.Sub(d.Time.Time))}
	if t.times {
		row[0] = d.Time.Local().Format(time.TimeOnly)
	}
	if t.namespaces {
		row = append(row, cmp.Or(d.Namespace, print.None))
	}
	row = append(row, decidedPod(d), resultCell(term, d))
	switch {
	case t.wide:
		score, tied := print.None, print.None
		if d.Tied > 0 {
			score, tied = strconv.FormatInt(d.Total, 10), strconv.Itoa(int(d.Tied))
		}
		return append(row, t.node(d), fitsCell(d), score, tied, strconv.Itoa(int(d.Attempt)), d.Profile+"@"+d.Revision, cmp.Or(d.Message, print.None))
	case fits:
		row = append(row, fitsCell(d))
	}
	return append(row, t.nodeOrReason(d))
}

// decidedPod names what a decision is about.
func decidedPod(d *v1alpha1.Decision) string {
	if d.Pod == "" && d.PodGroup != "" {
		return "podgroup/" + d.PodGroup
	}
	return cmp.Or(d.Pod, string(d.PodUID)) // a livesched that is older does not name pods that are gone
}

// resultCell returns the result, and how many decisions have it.
func resultCell(term *terminal.Terminal, d *v1alpha1.Decision) string {
	text := string(d.Result)
	if d.Repeated > 1 {
		text += fmt.Sprintf(" x%d", d.Repeated)
	}
	switch d.Result {
	case v1alpha1.DecisionUnschedulable:
		return term.Warn(text)
	case v1alpha1.DecisionFailed, v1alpha1.DecisionBindFailed:
		return term.Bad(text)
	}
	return text
}

// fitsCell returns how many nodes a pod fitted. Of a group as a whole, that is unknown.
func fitsCell(d *v1alpha1.Decision) string {
	if d.Pod == "" && d.PodGroup != "" {
		return print.None
	}
	return fmt.Sprintf("%d/%d", d.Feasible, d.Nodes)
}

// node returns the name of the node. A pod that fitted nodes got one.
func (t *decisionTable) node(d *v1alpha1.Decision) string {
	if d.Node == "" && t.hidden && d.Feasible > 0 {
		return print.HiddenNode
	}
	return cmp.Or(d.Node, print.None)
}

// nodeOrReason returns the node of a pod that got one, or why it got none.
func (t *decisionTable) nodeOrReason(d *v1alpha1.Decision) string {
	reason := shortReason(d.Message)
	switch {
	case d.Result == v1alpha1.DecisionBound || d.Result == v1alpha1.DecisionBinding || reason == "":
		return t.node(d)
	case d.Result == v1alpha1.DecisionBindFailed:
		return t.node(d) + ": " + reason
	}
	return reason
}

var (
	// inOtherColumns is the beginning of a message.
	inOtherColumns = regexp.MustCompile(`^(\d+/\d+ nodes are available: |pod group \S+: )`)
	// inVain is the end of a message about preemption that does not help.
	inVain = regexp.MustCompile(`;?( no new claims to deallocate,)? preemption: \d+/\d+ nodes .*$`)
)

// shortReason returns a message without what other columns say, and without why preemption does not
// help.
func shortReason(message string) string {
	message = strings.Join(strings.Fields(message), " ")
	message = inVain.ReplaceAllString(inOtherColumns.ReplaceAllString(message, ""), "")
	return strings.TrimSuffix(message, ".")
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package print

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
	"github.com/livesched/livesched/internal/words"
)

// DecisionTable prints decisions for people, at once or in parts.
type DecisionTable struct {
	// Namespaces adds their column, and Wide the columns that are only in wide output.
	Namespaces, Wide bool
	// Hidden means that the user may not see the names of nodes.
	Hidden bool
	// parts means that decisions are printed in parts, with their times instead of their ages. The
	// columns are the columns of the last part.
	parts   bool
	columns terminal.Columns
}

const (
	// leastReason is the room for the last column below which another one is left out.
	leastReason = 32
	// reasonLines is how many lines of the last column a reason takes at most, and narrowest the
	// width of a line if there is no room.
	reasonLines = 3
	narrowest   = 20
)

// Print prints decisions in their order.
func (t *DecisionTable) Print(w io.Writer, decisions []v1alpha1.Decision, now time.Time) error {
	term := terminal.Of(w)
	fits := true
	header, rows := t.header(fits), t.rows(term, decisions, now, fits)
	columns := terminal.ColumnsOf(header, rows)
	if !t.Wide && term.LastColumn(columns) < leastReason {
		fits = false
		header, rows = t.header(fits), t.rows(term, decisions, now, fits)
		columns = terminal.ColumnsOf(header, rows)
	}
	t.shorten(term, columns, rows)
	if err := term.Table(header, rows); err != nil {
		return err
	}
	if slices.ContainsFunc(decisions, func(d v1alpha1.Decision) bool { return t.node(&d) == words.HiddenNode }) {
		Line(w, NodesHidden)
	}
	return nil
}

// PrintPart prints the next decisions of a table whose columns are as wide as before, if they fit.
func (t *DecisionTable) PrintPart(w io.Writer, decisions []v1alpha1.Decision) error {
	term := terminal.Of(w)
	first := !t.parts
	t.parts = true
	header, rows := t.header(false), t.rows(term, decisions, time.Time{}, false)
	columns := terminal.ColumnsOf(header, rows)
	columns.Widen(t.columns)
	t.columns = columns
	t.shorten(term, columns, rows)
	if !first {
		header = nil
	}
	return term.TableIn(columns, header, rows)
}

// shorten cuts the last column after reasonLines lines, unless rows may have any length.
func (t *DecisionTable) shorten(term *terminal.Terminal, columns terminal.Columns, rows [][]string) {
	if t.Wide || !term.Wraps() {
		return
	}
	room := max(term.LastColumn(columns), narrowest)
	for _, row := range rows {
		last := len(row) - 1
		row[last] = terminal.Shorten(row[last], reasonLines, room)
	}
}

func (t *DecisionTable) header(fits bool) []string {
	header := []string{"AGE"}
	if t.parts {
		header[0] = "TIME"
	}
	if t.Namespaces {
		header = append(header, "NAMESPACE")
	}
	header = append(header, "POD", "RESULT")
	switch {
	case t.Wide:
		return append(header, "NODE", "FITS", "SCORE", "TIED", "TRY", "PROFILE", "REASON")
	case fits:
		header = append(header, "FITS")
	}
	return append(header, "NODE OR REASON")
}

func (t *DecisionTable) rows(term *terminal.Terminal, decisions []v1alpha1.Decision, now time.Time,
	fits bool) (rows [][]string) {
	for i := range decisions {
		rows = append(rows, t.row(term, &decisions[i], now, fits))
	}
	return rows
}

func (t *DecisionTable) row(term *terminal.Terminal, d *v1alpha1.Decision, now time.Time, fits bool) []string {
	row := []string{duration.HumanDuration(now.Sub(d.Time.Time))}
	if t.parts {
		row[0] = d.Time.Local().Format(time.TimeOnly)
	}
	if t.Namespaces {
		row = append(row, cmp.Or(d.Namespace, None))
	}
	row = append(row, decidedPod(d), resultCell(term, d))
	switch {
	case t.Wide:
		score, tied := None, None
		if d.Tied > 0 {
			score, tied = strconv.FormatInt(d.Total, 10), strconv.Itoa(int(d.Tied))
		}
		return append(row, t.node(d), fitsCell(d), score, tied, strconv.Itoa(int(d.Attempt)), d.Profile+"@"+d.Revision,
			cmp.Or(d.Message, None))
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

// fitsCell returns how many nodes a pod fitted: at least, if not all were evaluated. Of a group as
// a whole, that is unknown.
func fitsCell(d *v1alpha1.Decision) string {
	if d.Pod == "" && d.PodGroup != "" {
		return None
	}
	if d.Evaluated > 0 {
		return fmt.Sprintf(">=%d/%d", d.Feasible, d.Nodes)
	}
	return fmt.Sprintf("%d/%d", d.Feasible, d.Nodes)
}

// node returns the name of the node. A pod that fitted nodes got one.
func (t *DecisionTable) node(d *v1alpha1.Decision) string {
	if d.Node == "" && t.Hidden && d.Feasible > 0 {
		return words.HiddenNode
	}
	return cmp.Or(d.Node, None)
}

// nodeOrReason returns the node of a pod that got one, or why it got none.
func (t *DecisionTable) nodeOrReason(d *v1alpha1.Decision) string {
	reason := words.ShortReason(d.Message)
	switch {
	case d.Result == v1alpha1.DecisionBound || d.Result == v1alpha1.DecisionBinding || reason == "":
		return t.node(d)
	case d.Result == v1alpha1.DecisionBindFailed:
		return t.node(d) + ": " + reason
	}
	return reason
}

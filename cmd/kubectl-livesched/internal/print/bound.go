// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package print

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
	"github.com/livesched/livesched/internal/words"
)

// shortNames are the columns of plugins with long names.
var shortNames = map[string]string{
	"DynamicResources":                "Devices",
	"ImageLocality":                   "Image",
	"InterPodAffinity":                "PodAffinity",
	"NodeResourcesBalancedAllocation": "Balanced",
	"NodeResourcesFit":                "Fit",
	"PodTopologySpread":               "Spread",
	"TaintToleration":                 "Taint",
	"VolumeBinding":                   "Volume",
}

// printBound prints the explanation of a bound pod.
func printBound(w io.Writer, e *v1alpha1.PodExplanation, now time.Time, wide bool) error {
	b := e.Bound
	line := terminal.Of(w).Bold(nameOf(e)) + " is on node " + b.Node
	if e.Profile != "" {
		line += ", placed by the profile " + e.Profile
	}
	Line(w, line+".")
	if e.Message != "" {
		writeItem(w, e.Message)
	}
	if text := boundBasis(b, now); text != "" {
		writeItem(w, text)
	}
	if wide {
		writeItem(w, boundDetails(e))
	}
	return printScores(w, b.Top, wide)
}

// boundBasis describes when the pod was decided, and how much has changed since.
func boundBasis(b *v1alpha1.BoundExplanation, now time.Time) string {
	var texts []string
	if !b.Decided.IsZero() {
		texts = append(texts, "Decided "+duration.HumanDuration(now.Sub(b.Decided.Time))+" ago.")
	}
	if b.Changes > 0 {
		texts = append(texts, words.Many(b.Changes, "change")+" of nodes and pods since the decision.")
	}
	return strings.Join(texts, " ")
}

// boundDetails are the details that are only in wide output.
func boundDetails(e *v1alpha1.PodExplanation) string {
	text := "Verdict " + string(e.Verdict) + "; " + profileOf(e)
	if e.Feasible > 0 {
		text += "; nodes that it fitted: " + words.Grouped.Sprintf("%d", e.Feasible)
	}
	if e.Bound.Evaluated > 0 {
		text += words.Grouped.Sprintf(" of %d that were evaluated", e.Bound.Evaluated)
	}
	if e.Bound.Tied > 1 {
		text += "; nodes with the highest total: " + words.Grouped.Sprintf("%d", e.Bound.Tied)
	}
	if e.Bound.Basis != "" {
		text += "; decision: " + string(e.Bound.Basis)
	}
	return text + "."
}

// printScores prints the nodes with the highest totals.
func printScores(w io.Writer, top []v1alpha1.NodeScore, wide bool) error {
	if len(top) == 0 {
		return nil
	}
	top = slices.Clone(top)
	hidden := false
	for i := range top {
		if top[i].Node == "" {
			top[i].Node, hidden = words.HiddenNode, true
		}
	}
	plugins, equal := words.ScoreColumns(top, column)
	var left []string
	header, rows := scoreTable(top, plugins)
	for !wide && len(plugins) > 1 && !terminal.Of(w).Fits(header, rows) {
		last := len(plugins) - 1
		plugins, left = plugins[:last], append(left, plugins[last])
		header, rows = scoreTable(top, plugins)
	}
	if err := Table(w, header, rows); err != nil {
		return err
	}
	if len(equal) > 0 {
		writeItem(w, "Equal on these nodes: "+strings.Join(equal, ", ")+".")
	}
	if len(left) > 0 {
		writeItem(w, words.Many(len(left), "more plugin")+" with smaller differences: -o wide")
	}
	if hidden {
		writeItem(w, NodesHidden)
	}
	return nil
}

// column returns the name of a plugin's column.
func column(plugin string) string { return cmp.Or(shortNames[plugin], plugin) }

// scoreTable returns the table with the columns of plugins.
func scoreTable(top []v1alpha1.NodeScore, plugins []string) (header []string, rows [][]string) {
	header = []string{"NODE", "TOTAL"}
	for _, plugin := range plugins {
		header = append(header, column(plugin))
	}
	for _, n := range top {
		row := []string{n.Node, fmt.Sprint(n.Total)}
		for _, plugin := range plugins {
			row = append(row, fmt.Sprint(n.Scores[plugin]))
		}
		rows = append(rows, row)
	}
	return header, rows
}

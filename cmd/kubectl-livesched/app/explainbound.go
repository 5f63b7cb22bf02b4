// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
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
func printBound(w io.Writer, e *v1alpha1.PodExplanation) error {
	writeLine(w, boundSummary(e))
	if e.Message != "" {
		writeLine(w, e.Message)
	}
	b := e.Bound
	if len(b.Top) == 0 {
		return nil
	}
	plugins, equal := pluginColumns(b.Top)
	left := 0
	for len(plugins) > 1 && tableWidth(b.Top, plugins) > terminal.Of(w).Width() {
		plugins, left = plugins[:len(plugins)-1], left+1
	}
	header := []string{"NODE", "TOTAL"}
	for _, plugin := range plugins {
		header = append(header, column(plugin))
	}
	var rows [][]string
	for _, n := range b.Top {
		row := []string{orNone(n.Node), fmt.Sprint(n.Total)}
		for _, plugin := range plugins {
			row = append(row, fmt.Sprint(n.Scores[plugin]))
		}
		rows = append(rows, row)
	}
	if err := writeTable(w, header, rows); err != nil {
		return err
	}
	if len(equal) > 0 {
		writeLine(w, "Equal on these nodes: "+strings.Join(equal, ", "))
	}
	if left > 0 {
		writeLine(w, plural(left, "plugin")+" more: -o yaml")
	}
	return nil
}

// boundSummary returns the first line.
func boundSummary(e *v1alpha1.PodExplanation) string {
	b := e.Bound
	line := b.Node
	switch {
	case e.Profile != "" && e.Revision != "":
		line += " by " + e.Profile + "@" + e.Revision
	case e.Profile != "":
		line += " by " + e.Profile
	default:
		line += " by " + profileOf(e)
	}
	if e.Feasible > 0 {
		line += grouped.Sprintf("; %d fit", e.Feasible)
		if b.Tied > 1 {
			line += grouped.Sprintf(", %d tied", b.Tied)
		}
	}
	if b.Basis != "" {
		line += "; basis " + string(b.Basis)
		if b.Changes > 0 {
			line += ", " + many(int32(min(b.Changes, math.MaxInt32)), "change") + " since"
		}
	}
	return line
}

// pluginColumns returns the plugins whose scores differ between nodes, those that differ most
// first, and the others with their score.
func pluginColumns(top []v1alpha1.NodeScore) (differ, equal []string) {
	least, most := map[string]int64{}, map[string]int64{}
	for _, n := range top {
		for plugin := range n.Scores {
			least[plugin], most[plugin] = n.Scores[plugin], n.Scores[plugin]
		}
	}
	for plugin := range least {
		for _, n := range top {
			least[plugin], most[plugin] = min(least[plugin], n.Scores[plugin]), max(most[plugin], n.Scores[plugin])
		}
		if least[plugin] != most[plugin] || len(top) == 1 {
			differ = append(differ, plugin)
		} else {
			equal = append(equal, fmt.Sprintf("%s %d", column(plugin), least[plugin]))
		}
	}
	slices.SortFunc(differ, func(a, b string) int {
		return cmp.Or(cmp.Compare(most[b]-least[b], most[a]-least[a]), cmp.Compare(most[b], most[a]), cmp.Compare(a, b))
	})
	slices.Sort(equal)
	return differ, equal
}

// column returns the name of a plugin's column.
func column(plugin string) string { return cmp.Or(shortNames[plugin], plugin) }

// tableWidth returns the width of the table with the columns of plugins.
func tableWidth(top []v1alpha1.NodeScore, plugins []string) int {
	const space = 3 // between columns
	node, total := len("NODE"), len("TOTAL")
	for _, n := range top {
		node, total = max(node, len(n.Node)), max(total, len(fmt.Sprint(n.Total)))
	}
	width := node + space + total
	for _, plugin := range plugins {
		widest := len(column(plugin))
		for _, n := range top {
			widest = max(widest, len(fmt.Sprint(n.Scores[plugin])))
		}
		width += space + widest
	}
	return width
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"github.com/livesched/livesched/hack/bench/chart"
	"github.com/livesched/livesched/hack/bench/decision"
	"github.com/livesched/livesched/hack/bench/report"
	"github.com/livesched/livesched/test/decidebench"
)

// Charts returns two charts of livesched over the number of nodes: memory and warm decisions. It
// returns none for a single cluster.
func Charts(r *report.Report) []chart.Chart {
	rows := r.Rows.Where("contender", decidebench.Livesched)
	if len(rows.Each("nodes")) < 2 {
		return nil
	}
	memory := chart.Chart{File: "scale-memory", Title: "Memory, " + r.Parameters["pods-per-node"] +
		" bound pods a node", X: "nodes", Y: "MiB", LogX: true, LogY: true}
	for _, value := range []string{heapMiB, peakMiB} {
		memory.Series = append(memory.Series, rows.Where("kind", "").Line(value, "nodes", value))
	}
	decisions := chart.Chart{File: "scale-decision", Title: "A warm decision", X: "nodes", Y: "us of CPU for each pod",
		LogX: true, LogY: true}
	for _, kind := range rows.Each("kind") {
		decisions.Series = append(decisions.Series, rows.Where("kind", kind).Line(kind, "nodes", decision.CPU))
	}
	return []chart.Chart{memory, decisions}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"fmt"
	"strconv"

	"github.com/livesched/livesched/hack/bench/chart"
	"github.com/livesched/livesched/hack/bench/report"
	"github.com/livesched/livesched/test/decidebench"
	"github.com/livesched/livesched/test/workload"
)

const perPodCPU = "us of CPU for each pod"

// Charts returns one chart of all kinds for each number of nodes, and one of how the cost of a
// decision grows with that number.
func Charts(r *report.Report) []chart.Chart {
	var all []chart.Chart
	kinds := r.Rows.Each("kind")
	for _, nodes := range r.Rows.Each("nodes") {
		rows := r.Rows.Where("nodes", nodes)
		n, _ := strconv.ParseFloat(nodes, 64) // a number, because the benchmark wrote it
		c := chart.Chart{
			File: "decision-" + nodes, Title: fmt.Sprintf("A decision at %s nodes", report.Whole(n)), X: "pods",
			Y: perPodCPU, LogY: true, Groups: kinds,
		}
		for _, contender := range rows.Each("contender") {
			of := rows.Where("contender", contender)
			c.Series = append(c.Series, of.Bars(contender, "kind", kinds, CPU))
			if contender == decidebench.Livesched {
				c.Series = append(c.Series, of.Bars("livesched, first of a class", "kind", kinds, First+CPU))
			}
		}
		all = append(all, c)
	}
	if len(all) < 2 {
		return all
	}
	growth := chart.Chart{File: "decision-growth", Title: "A decision by the number of nodes", X: "nodes", Y: perPodCPU,
		LogX: true, LogY: true}
	for _, contender := range []string{decidebench.Livesched, decidebench.KubeScheduler} {
		for _, kind := range []string{workload.Basic, workload.Spread, workload.Anti} {
			line := r.Rows.Where("contender", contender).Where("kind", kind).Line(contender+", "+kind, "nodes", CPU)
			line.Dashed = contender != decidebench.Livesched
			if len(line.X) > 1 {
				growth.Series = append(growth.Series, line)
			}
		}
	}
	return append(all, growth)
}

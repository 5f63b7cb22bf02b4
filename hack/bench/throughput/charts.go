// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package throughput

import (
	"fmt"
	"strconv"

	"github.com/livesched/livesched/hack/bench/chart"
	"github.com/livesched/livesched/hack/bench/report"
)

// Charts returns two charts for each number of nodes: pods per second, and the scheduler's CPU
// time.
func Charts(r *report.Report) []chart.Chart {
	var all []chart.Chart
	for _, nodes := range r.Rows.Each("nodes") {
		rows := r.Rows.Where("nodes", nodes)
		kinds := rows.Each("kind")
		n, _ := strconv.ParseFloat(nodes, 64) // a number, because the benchmark wrote it
		rate := chart.Chart{File: "throughput-" + nodes, Title: fmt.Sprintf("End to end, %s nodes", report.Whole(n)),
			X: "pods", Y: "pods/s", Groups: kinds}
		cpu := chart.Chart{File: "throughput-cpu-" + nodes, Title: rate.Title + ": the scheduler's CPU", X: "pods",
			Y: "ms of CPU for each pod", Groups: kinds}
		for _, contender := range rows.Each("contender") {
			of := rows.Where("contender", contender)
			rate.Series = append(rate.Series, of.Bars(contender, "kind", kinds, podsPerSecond))
			if contender != bindOnly {
				cpu.Series = append(cpu.Series, of.Bars(contender, "kind", kinds, schedulerCPU))
			}
		}
		all = append(all, rate)
		if len(cpu.Series) > 0 {
			all = append(all, cpu)
		}
	}
	return all
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"fmt"
	"math"
	"strconv"

	"github.com/livesched/livesched/hack/bench/report"
	"github.com/livesched/livesched/test/decidebench"
)

// Tables returns one table for each number of nodes, and one of how the cost of livesched's
// decisions grows with that number.
func Tables(r *report.Report) []report.Table {
	var all []report.Table
	for _, nodes := range r.Rows.Each("nodes") {
		all = append(all, ofNodes(r.Rows.Where("nodes", nodes), nodes))
	}
	if len(all) > 1 {
		all = append(all, growth(r.Rows.Where("contender", decidebench.Livesched)))
	}
	return all
}

func ofNodes(rows report.Rows, nodes string) report.Table {
	n, _ := strconv.ParseFloat(nodes, 64) // a number, because the benchmark wrote it
	t := report.Table{
		Title: fmt.Sprintf("A decision at %s nodes, us of CPU for each pod (in brackets: of time); ratios are "+
			"kube-scheduler's to livesched's", report.Whole(n)),
		Header: []string{
			"pods", "livesched", "first of a class", "second", "kube-scheduler", "ratio", "kube-scheduler, every node",
			"ratio",
			"KiB/pod", "kube-scheduler", "allocs/pod", "kube-scheduler",
		},
	}
	for _, kind := range rows.Each("kind") {
		of := rows.Where("kind", kind)
		ours, sampled, all := of.Where("contender", decidebench.Livesched),
			of.Where("contender", decidebench.KubeScheduler), of.Where("contender", decidebench.KubeSchedulerAll)
		t.Add(kind,
			times(ours, ""), times(ours, First), times(ours, Second),
			times(sampled, ""), ratios(sampled, ours), times(all, ""), ratios(all, ours),
			report.Number(ours.Median(Bytes)/1024), report.Number(sampled.Median(Bytes)/1024),
			report.Whole(ours.Median(Allocs)), report.Whole(sampled.Median(Allocs)),
		)
	}
	return t
}

// times formats CPU and wall time.
func times(rows report.Rows, prefix string) string {
	used, passed := rows.Median(prefix+CPU), rows.Median(prefix+Wall)
	if math.IsNaN(used) {
		return ""
	}
	return fmt.Sprintf("%s (%s)", report.Number(used), report.Number(passed))
}

func ratios(theirs, ours report.Rows) string {
	used := report.Ratio(theirs.Median(CPU), ours.Median(CPU))
	if used == "" {
		return ""
	}
	return fmt.Sprintf("%s (%s)", used, report.Ratio(theirs.Median(Wall), ours.Median(Wall)))
}

func growth(rows report.Rows) report.Table {
	sizes := rows.Each("nodes")
	last, before := sizes[len(sizes)-1], sizes[len(sizes)-2]
	t := report.Table{
		Title:  "livesched, warm, us of CPU for each pod, by nodes",
		Header: append(append([]string{"pods"}, sizes...), fmt.Sprintf("%s : %s", last, before)),
	}
	for _, kind := range rows.Each("kind") {
		of := rows.Where("kind", kind)
		cells := []string{kind}
		for _, size := range sizes {
			cells = append(cells, report.Number(of.Where("nodes", size).Median(CPU)))
		}
		t.Add(append(cells, report.Ratio(of.Where("nodes", last).Median(CPU),
			of.Where("nodes", before).Median(CPU)))...)
	}
	return t
}

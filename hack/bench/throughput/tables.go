// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package throughput

import (
	"fmt"
	"strconv"

	"github.com/livesched/livesched/hack/bench/report"
)

// columns lists what a table shows of each contender besides the rate.
var columns = []struct{ title, value string }{
	{"scheduler CPU ms/pod", schedulerCPU},
	{"API server CPU ms/pod", apiCPU},
	{"peak MiB", schedulerRSS},
	{"decision us", decisionTime},
	{"first ms", firstAfter},
	{"gang ms", gangTime},
	{"slowest gang ms", slowestGang},
	{"p50 ms", latency50},
	{"p99 ms", latency99},
	{"nodes used", nodesUsed},
	{"most on a node", fullestNode},
	{"zone skew", zoneSkew},
	{askedRate, askedRate},
	{askedDecision, askedDecision},
	{askedCPU, askedCPU},
	{firstPage, firstPage},
	{largestPage, largestPage},
}

// Tables returns a table for each number of nodes.
func Tables(r *report.Report) []report.Table {
	var all []report.Table
	for _, nodes := range r.Rows.Each("nodes") {
		all = append(all, ofNodes(r, r.Rows.Where("nodes", nodes), nodes))
	}
	return all
}

func ofNodes(r *report.Report, rows report.Rows, nodes string) report.Table {
	n, _ := strconv.ParseFloat(nodes, 64) // a number, because the benchmark wrote it
	t := report.Table{
		Title: fmt.Sprintf("%s nodes, %s pods, medians of %s runs in turn", report.Whole(n), r.Parameters["pods"],
			r.Parameters["runs"]),
		Header: []string{"pods", "", "pods/s", "of bind-only", "x kube-scheduler"},
	}
	for _, c := range columns {
		t.Header = append(t.Header, c.title)
	}
	for _, kind := range rows.Each("kind") {
		of := rows.Where("kind", kind)
		ceiling := of.Where("contender", bindOnly).Median(podsPerSecond)
		theirs := of.Where("contender", kubeScheduler).Median(podsPerSecond)
		first := kind
		for _, name := range of.Each("contender") {
			own := of.Where("contender", name)
			rate := own.Median(podsPerSecond)
			cells := []string{first, name, report.Whole(rate), report.Ratio(rate, ceiling), report.Ratio(rate, theirs)}
			for _, c := range columns {
				cells = append(cells, report.Number(own.Median(c.value)))
			}
			t.Add(cells...)
			first = ""
		}
	}
	return t
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"fmt"
	"strconv"

	"github.com/livesched/livesched/hack/bench/decision"
	"github.com/livesched/livesched/hack/bench/report"
)

// Tables returns one table of the clusters as a whole and one of decisions, both with a column for
// each cluster.
func Tables(r *report.Report) []report.Table {
	var clusters []report.Rows // for each cluster, its own row and those of decisions in it
	for _, contender := range r.Rows.Each("contender") {
		of := r.Rows.Where("contender", contender)
		for _, nodes := range of.Each("nodes") {
			clusters = append(clusters, of.Where("nodes", nodes))
		}
	}
	whole := report.Table{Title: fmt.Sprintf("Clusters with %s bound pods a node", r.Parameters["pods-per-node"]),
		Header: header(clusters)}
	for _, value := range []string{
		nodeBytes, objectBytes, cacheBytes, stateMiB, heapMiB, peakMiB, decodeSeconds, cacheSeconds, snapshotSeconds,
		firstMillis,
		heartbeat, change, afterChanges, collection,
	} {
		cells := []string{value}
		for _, rows := range clusters {
			cells = append(cells, report.Number(rows.Where("kind", "").Median(value)))
		}
		whole.Add(cells...)
	}
	decisions := report.Table{Title: "Decisions, us of CPU for each pod: warm / first of a class / second",
		Header: header(clusters)}
	for _, kind := range r.Rows.Each("kind") {
		cells := []string{kind}
		for _, rows := range clusters {
			cells = append(cells, times(rows.Where("kind", kind)))
		}
		decisions.Add(cells...)
	}
	return []report.Table{whole, decisions}
}

func header(clusters []report.Rows) []string {
	titles := []string{""}
	for _, rows := range clusters {
		nodes, _ := strconv.ParseFloat(rows[0].Labels["nodes"], 64) // numbers, because the benchmark wrote them
		pods, _ := strconv.ParseFloat(rows[0].Labels["pods"], 64)
		titles = append(titles, fmt.Sprintf("%s: %s nodes, %s pods", rows[0].Labels["contender"], report.Whole(nodes),
			report.Whole(pods)))
	}
	return titles
}

func times(rows report.Rows) string {
	text := report.Number(rows.Median(decision.CPU))
	if first := report.Number(rows.Median(decision.First + decision.CPU)); first != "" {
		text += " / " + first + " / " + report.Number(rows.Median(decision.Second+decision.CPU))
	}
	return text
}

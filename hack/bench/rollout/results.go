// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"strconv"

	"github.com/livesched/livesched/hack/bench/chart"
	"github.com/livesched/livesched/hack/bench/report"
)

// Tables returns one table for harmless and one for harmful revisions.
func Tables(r *report.Report) []report.Table {
	safe := report.Table{Title: "Harmless revisions that are aborted, in percent",
		Header: []string{"owners that fail", "odds", "at most", livesched, zTest, "inconclusive"}}
	rows := r.Rows.Where(study, harmless)
	for _, fails := range rows.Each(failing) {
		for _, odds := range rows.Each(against) {
			of := rows.Where(failing, fails).Where(against, odds)
			ours := of.Where(judge, livesched)
			safe.Add(fails+" %", odds, report.Number(atMost(odds)), report.Number(ours.Median(aborted)),
				report.Number(of.Where(judge, zTest).Median(aborted)), report.Number(ours.Median(inconclusive)))
		}
	}
	harm := report.Table{Title: "Owners with a harmful revision until it is aborted",
		Header: []string{"weight", "owners that fail", "p50", "p90", "aborted, in percent", "inconclusive"}}
	for _, row := range r.Rows.Where(study, harmful) {
		one := report.Rows{row}
		harm.Add(row.Labels[weight]+" %", row.Labels[failing]+" %", report.Whole(one.Median(median)),
			report.Whole(one.Median(most)), report.Number(one.Median(aborted)), report.Number(one.Median(inconclusive)))
	}
	return []report.Table{safe, harm}
}

// atMost returns the percentage of harmless revisions that odds promise to abort at most.
func atMost(odds string) float64 { return 100 / number(odds) }

// Charts returns one chart for harmless and one for harmful revisions.
func Charts(r *report.Report) []chart.Chart {
	safe := chart.Chart{File: "rollout-harmless", Title: "Harmless roll-outs that are aborted", X: "odds",
		Y: "% of roll-outs", LogX: true, LogY: true}
	rows := r.Rows.Where(study, harmless)
	bound := chart.Series{Name: "promised: at most 1 in odds", Dashed: true}
	for _, odds := range rows.Each(against) {
		bound.X, bound.Y = append(bound.X, number(odds)), append(bound.Y, atMost(odds))
	}
	for _, judged := range rows.Each(judge) {
		for _, fails := range rows.Each(failing) {
			line := positive(rows.Where(judge, judged).Where(failing, fails).Line(
				fmt.Sprintf("%s, %s %% of owners fail", judged, fails), against, aborted))
			line.Dashed = judged != livesched
			safe.Series = append(safe.Series, line)
		}
	}
	safe.Series = append(safe.Series, bound)
	harm := chart.Chart{File: "rollout-harmful", Title: "Owners with a harmful revision until it is aborted",
		X: "% of owners that fail with it", Y: "owners with it", LogX: true, LogY: true}
	rows = r.Rows.Where(study, harmful)
	for _, percent := range rows.Each(weight) {
		for _, value := range []struct{ name, what string }{{median, "median"}, {most, "90th percentile"}} {
			line := rows.Where(weight, percent).Line(fmt.Sprintf("weight %s %%, %s", percent, value.what), failing,
				value.name)
			line.Dashed = value.name == most
			harm.Series = append(harm.Series, line)
		}
	}
	return []chart.Chart{safe, harm}
}

// positive leaves out what has no place on a logarithmic axis.
func positive(line chart.Series) chart.Series {
	out := chart.Series{Name: line.Name}
	for i, y := range line.Y {
		if y > 0 {
			out.X, out.Y = append(out.X, line.X[i]), append(out.Y, y)
		}
	}
	return out
}

func number(label string) float64 {
	n, _ := strconv.ParseFloat(label, 64) // a number, because the simulation wrote it
	return n
}

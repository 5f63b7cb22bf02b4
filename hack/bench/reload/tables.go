// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package reload

import (
	"fmt"
	"strings"

	"github.com/livesched/livesched/hack/bench/report"
)

// The names of the values, each of one reload.
const (
	// decision is the time from just before the client sends the change until the new instance has
	// refused or placed its first pod. request is the part until the API server has answered.
	decision, request = "sent to first decision ms", "API call ms"
	build             = "build ms"
	// standstill is the longest time for which the reload held the queue. checkedAgain is the time
	// that checking all waiting pods again took.
	standstill, checkedAgain = "standstill ms", "all checked again ms"
)

// The names of the values under load, each of one run.
const (
	podsPerSecond = "pods/s"
	reloads       = "reloads"
)

// The names of the values of changes until the status reports them. swappedIn and statusReported
// are each of one change, from just before the client sends it. allWritten and allProgrammed are of
// many profiles that change together.
const (
	swappedIn, statusReported = "sent to swapped in ms", "sent to status ms"
	allWritten, allProgrammed = "all written s", "all programmed s"
)

const withoutReloads, withReloads = "without reloads", "a reload every second"

// Tables returns one table of reloads while pods wait, one of load with and without reloads, and
// one of changes until the status reports them, each if the report has rows for it.
func Tables(r *report.Report) []report.Table {
	var all []report.Table
	if pending := r.Rows.Each("pending"); len(pending) > 0 {
		all = append(all, latencies(r, pending))
	}
	if loads := r.Rows.Each("load"); len(loads) > 0 {
		all = append(all, underLoad(r, loads))
	}
	if while := r.Rows.Each("while"); len(while) > 0 {
		all = append(all, untilReported(r, while))
	}
	return all
}

func latencies(r *report.Report, pending []string) report.Table {
	t := report.Table{
		Title: fmt.Sprintf("Reloads of one of %s profiles, %s nodes, %s pods; milliseconds, p50 / p99 / most",
			r.Parameters["profiles"], r.Parameters["nodes"], r.Parameters["pods"]),
		Header: []string{"pods are", "reloads", "sent to first decision", "of that, the API call", "build",
			"standstill", "all checked again"},
	}
	for _, kind := range pending {
		rows := r.Rows.Where("pending", kind)
		cells := []string{kind, fmt.Sprint(len(rows[0].Values[decision]))}
		for _, value := range []string{decision, request, build, standstill, checkedAgain} {
			cells = append(cells, quantiles(rows, value, 0.5, 0.99, 1))
		}
		t.Add(cells...)
	}
	return t
}

func quantiles(rows report.Rows, value string, shares ...float64) string {
	var cells []string
	for _, share := range shares {
		cells = append(cells, report.Number(rows.Quantile(value, share)))
	}
	return strings.Join(cells, " / ")
}

func untilReported(r *report.Report, all []string) report.Table {
	t := report.Table{
		Title: fmt.Sprintf("Changes of one of %s profiles until the status reports them, %s nodes; milliseconds, p50 "+
			"/ p95 / p99 / most",
			r.Parameters["profiles"], r.Parameters["nodes"]),
		Header: []string{"while", "changes", "sent to swapped in", "sent to status", "of that, the API call",
			"all written (s)", "all programmed (s)"},
	}
	for _, while := range all {
		rows := r.Rows.Where("while", while)
		cells := []string{while, fmt.Sprint(len(rows[0].Values[statusReported]))}
		for _, value := range []string{swappedIn, statusReported, request} {
			cells = append(cells, quantiles(rows, value, 0.5, 0.95, 0.99, 1))
		}
		t.Add(append(cells, report.Number(rows.Median(allWritten)), report.Number(rows.Median(allProgrammed)))...)
	}
	return t
}

func underLoad(r *report.Report, loads []string) report.Table {
	t := report.Table{
		Title: fmt.Sprintf("Pods bound while others are created, %s nodes, median of windows of %v in turn",
			r.Parameters["nodes"], window),
		Header: []string{"", "pods/s", "of without", "reloads", "windows"},
	}
	without := r.Rows.Where("load", withoutReloads).Median(podsPerSecond)
	for _, load := range loads {
		rows := r.Rows.Where("load", load)
		var runs []string
		for _, rate := range rows[0].Values[podsPerSecond] {
			runs = append(runs, report.Whole(rate))
		}
		rate := rows.Median(podsPerSecond)
		t.Add(load, report.Whole(rate), report.Ratio(rate, without), report.Whole(rows.Median(reloads)),
			strings.Join(runs, ", "))
	}
	return t
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"slices"

	"github.com/livesched/livesched/hack/bench/report"
)

// columns lists what the table shows beside the ratios.
var columns = []struct{ title, value string }{
	{"pods", pods},
	{"CPU ms/pod", cpuPerPod},
	{"CPU s", schedulerCPU},
	{"peak MiB", schedulerRSS},
	{"API CPU ms/pod", apiCPU},
	{"p50", percentile(50)},
	{"p99", percentile(99)},
	{"measured s", seconds},
	{"total s", totalSeconds},
	{"differing", differing},
}

// Tables returns a table of the results, one that compares livesched with kube-scheduler, one of
// what was reduced, and one of what has no result.
func Tables(r *report.Report) []report.Table {
	results := report.Table{
		Title: "Kubernetes' scheduler benchmark, " + r.Parameters["kubernetes"],
		Header: []string{"workload", "", "status", "pods/s", "x kube-scheduler", "of ceiling", "upstream's threshold",
			"whole", "whole x kube-scheduler", "whole of ceiling", "CPU per pod x kube-scheduler"},
	}
	for _, c := range columns {
		results.Header = append(results.Header, c.title)
	}
	compared := newComparison()
	reduced := report.Table{Title: "Reduced workloads", Header: []string{"workload", "parameters"}}
	notes := report.Table{Title: "Without a result", Header: []string{"workload", "", "status", "why"}}
	for _, name := range r.Rows.Each(labelWorkload) {
		of := r.Rows.Where(labelWorkload, name)
		addResults(&results, of, name)
		addComparison(&compared, of, name)
		for _, row := range of {
			if row.Labels[labelStatus] != statusOK {
				notes.Add(name, row.Labels[labelContender], row.Labels[labelStatus], row.Labels[labelNote])
			}
		}
		if text := of[0].Labels[labelReduced]; text != "" {
			reduced.Add(name, text)
		}
	}
	tables := []report.Table{results}
	for _, t := range []report.Table{compared, reduced, notes} {
		if len(t.Rows) > 0 {
			tables = append(tables, t)
		}
	}
	return tables
}

// addResults adds the rows of a workload: one for each contender and collection.
func addResults(t *report.Table, of report.Rows, name string) {
	for _, row := range of {
		if row.Labels[labelStatus] == statusSkipped {
			continue
		}
		own := report.Rows{row}
		beside := func(contender string) report.Rows {
			return slices.DeleteFunc(of.Where(labelContender, contender), func(other report.Row) bool {
				return other.Labels[labelStatus] != statusOK ||
					other.Labels[labelCollection] != row.Labels[labelCollection]
			})
		}
		theirs, limit := beside(kubeScheduler), beside(ceiling)
		title := name
		if part := row.Labels[labelCollection]; part != "" {
			title += ", collection " + part
		}
		cells := []string{
			title, row.Labels[labelContender], row.Labels[labelStatus],
			report.Number(own.Median(podsPerSecond)), ratio(own, theirs), ratio(own, limit),
			report.Number(own.Median(thresholdValue)), report.Number(own.Median(wholeRate)),
			report.Ratio(own.Median(wholeRate), theirs.Median(wholeRate)),
			report.Ratio(own.Median(wholeRate), limit.Median(wholeRate)),
			report.Ratio(own.Median(cpuPerPod), theirs.Median(cpuPerPod)),
		}
		for _, c := range columns {
			cells = append(cells, report.Number(own.Median(c.value)))
		}
		t.Add(cells...)
	}
}

// ratio returns the ratio of the throughputs of two contenders.
func ratio(own, other report.Rows) string {
	return report.Ratio(own.Median(podsPerSecond), other.Median(podsPerSecond))
}

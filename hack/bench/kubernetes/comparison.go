// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"slices"

	"github.com/livesched/livesched/hack/bench/report"
)

// comparedValues are the values of a comparison.
var comparedValues = []struct{ title, value string }{
	{"pods/s, whole", wholeRate},
	{"CPU ms/pod", cpuPerPod},
	{"peak MiB", schedulerRSS},
}

// newComparison returns a table of livesched and kube-scheduler, with a row for each workload. The
// last column is the rate of livesched as a share of the ceiling's.
func newComparison() report.Table {
	t := report.Table{Title: "livesched beside kube-scheduler", Header: []string{"workload"}}
	for _, c := range comparedValues {
		t.Header = append(t.Header, c.title+": kube-scheduler", "livesched", "ratio")
	}
	t.Header = append(t.Header, "pods/s of livesched : ceiling")
	return t
}

// addComparison adds a workload, unless one of the two has no result or the workload collects more
// than once.
func addComparison(t *report.Table, of report.Rows, name string) {
	done := func(contender string) report.Rows {
		return slices.DeleteFunc(of.Where(labelContender, contender), func(r report.Row) bool {
			return r.Labels[labelStatus] != statusOK
		})
	}
	theirs, ours := done(kubeScheduler), done(livesched)
	if len(theirs) != 1 || len(ours) != 1 {
		return
	}
	cells := []string{name}
	for _, c := range comparedValues {
		a, b := theirs.Median(c.value), ours.Median(c.value)
		cells = append(cells, report.Number(a), report.Number(b), report.Ratio(b, a))
	}
	share := "–"
	if highest := done(ceiling); len(highest) == 1 {
		share = report.Ratio(ours.Median(wholeRate), highest.Median(wholeRate))
	}
	t.Add(append(cells, share)...)
}

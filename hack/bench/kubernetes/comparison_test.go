// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/livesched/livesched/hack/bench/report"
)

func TestComparison(t *testing.T) {
	row := func(contender, status string, rate float64) report.Row {
		return report.Row{Labels: map[string]string{labelContender: contender, labelStatus: status},
			Values: map[string][]float64{wholeRate: {rate}, cpuPerPod: {2}, schedulerRSS: {100}}}
	}
	table := newComparison()
	for name, rows := range map[string]report.Rows{
		"without livesched":       {row(kubeScheduler, statusOK, 100)},
		"livesched has no result": {row(kubeScheduler, statusOK, 100), row(livesched, "timeout", 10)},
	} {
		if addComparison(&table, rows, name); len(table.Rows) != 0 {
			t.Errorf("%s: %v", name, table.Rows)
		}
	}
	addComparison(&table, report.Rows{row(kubeScheduler, statusOK, 100), row(livesched, statusOK, 150)}, "no ceiling")
	addComparison(&table, report.Rows{row(ceiling, statusOK, 200), row(kubeScheduler, statusOK, 100),
		row(livesched, statusOK, 150)}, "ceiling")
	want := [][]string{
		{"no ceiling", "100", "150", "1.50", "2.00", "2.00", "1.00", "100", "100", "1.00", "–"},
		{"ceiling", "100", "150", "1.50", "2.00", "2.00", "1.00", "100", "100", "1.00", "0.75"},
	}
	if diff := cmp.Diff(want, table.Rows); diff != "" {
		t.Error(diff)
	}
	if len(table.Header) != len(want[0]) {
		t.Errorf("the header is %v", table.Header)
	}
}

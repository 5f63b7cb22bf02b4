// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package reload

import (
	"reflect"
	"testing"

	"github.com/livesched/livesched/hack/bench/report"
)

func TestTablesHaveQuantilesOfReloadsAndRatiosOfLoads(t *testing.T) {
	r, err := report.New("reload", "",
		map[string]string{"nodes": "10", "pods": "20", "profiles": "3", "length": "1s", "runs": "2"})
	if err != nil {
		t.Fatal(err)
	}
	add := func(label, value string, values map[string]float64) {
		t.Helper()
		if err := r.Add(map[string]string{label: value}, values); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		ms := float64(i + 1)
		add("pending", "gated",
			map[string]float64{decision: ms, request: ms / 2, build: 1, standstill: ms / 100, checkedAgain: 2 * ms})
	}
	for _, rate := range []float64{100, 120} {
		add("load", withoutReloads, map[string]float64{podsPerSecond: rate, reloads: 0})
		add("load", withReloads, map[string]float64{podsPerSecond: rate - 10, reloads: 5})
	}
	for i := range 100 {
		add("while", "pods are bound",
			map[string]float64{request: 1, swappedIn: float64(i + 1), statusReported: 2 * float64(i+1)})
	}
	add("while", "many", map[string]float64{request: 1, swappedIn: 2, statusReported: 3})
	add("while", "many", map[string]float64{allWritten: 4, allProgrammed: 5})
	tables := Tables(r)
	if len(tables) != 3 {
		t.Fatalf("%d tables", len(tables))
	}
	want := []string{"gated", "100", "50.0 / 99.0 / 100", "25.0 / 49.5 / 50.0", "1.00 / 1.00 / 1.00",
		"0.50 / 0.99 / 1.00", "100 / 198 / 200"}
	if got := tables[0].Rows[0]; !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got, want := tables[1].Rows[1],
		[]string{withReloads, "90", "0.90", "5", "90, 110"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for i, want := range [][]string{
		{"pods are bound", "100", "50.0 / 95.0 / 99.0 / 100", "100 / 190 / 198 / 200", "1.00 / 1.00 / 1.00 / 1.00",
			"", ""},
		{"many", "1", "2.00 / 2.00 / 2.00 / 2.00", "3.00 / 3.00 / 3.00 / 3.00", "1.00 / 1.00 / 1.00 / 1.00", "4.00",
			"5.00"},
	} {
		if got := tables[2].Rows[i]; !reflect.DeepEqual(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
	charts := Charts(r)
	if len(charts) != 1 || len(charts[0].Series) != 2 || len(charts[0].Series[0].X) != 100 ||
		charts[0].Series[0].Y[99] != 1 {
		t.Errorf("charts %v", charts)
	}
	if Charts(&report.Report{}) != nil || len(Tables(&report.Report{})) != 0 {
		t.Error("something is made of nothing")
	}
}

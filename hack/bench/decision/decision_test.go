// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/livesched/livesched/hack/bench/report"
	"github.com/livesched/livesched/test/decidebench"
	"github.com/livesched/livesched/test/workload"
)

func newReport(t *testing.T) *report.Report {
	t.Helper()
	r, err := report.New("decision", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestEveryContenderIsMeasuredInEveryRound(t *testing.T) {
	o := options{nodes: []int{5, 8}, kinds: []string{workload.Basic, workload.Daemon},
		contenders: decidebench.Contenders, pods: 4, exact: 2, rounds: 2, cold: 1}
	if err := o.validate(); err != nil {
		t.Fatal(err)
	}
	r := newReport(t)
	if err := o.run(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if want := len(o.nodes) * len(o.kinds) * len(o.contenders); len(r.Rows) != want {
		t.Errorf("%d rows, want %d", len(r.Rows), want)
	}
	for _, row := range r.Rows {
		names := []string{CPU, Wall, Bytes, Allocs}
		if row.Labels["contender"] == decidebench.Livesched {
			names = append(names, First+CPU, First+Bytes, Second+CPU, Second+Allocs)
		} else if _, ok := row.Values[First+CPU]; ok {
			t.Errorf("%v: who keeps nothing of classes has a first decision", row.Labels)
		}
		for _, name := range names {
			if len(row.Values[name]) != o.rounds {
				t.Errorf("%v: %s has values %v", row.Labels, name, row.Values[name])
			}
		}
		if slices.Min(row.Values[Wall]) <= 0 || slices.Min(row.Values[Allocs]) <= 0 {
			t.Errorf("%v takes nothing: %v", row.Labels, row.Values)
		}
	}
	if tables := Tables(r); len(tables) != 3 || len(tables[0].Rows) != 2 {
		t.Errorf("tables %v", tables)
	}
	if charts := Charts(r); len(charts) != 3 || len(charts[0].Series) != len(o.contenders)+1 {
		t.Errorf("charts %v", charts)
	}
}

func TestATableHasRatiosOfMedians(t *testing.T) {
	r := newReport(t)
	for contender, values := range map[string][]map[string]float64{
		decidebench.Livesched: {
			{CPU: 10, Wall: 8, Bytes: 2048, Allocs: 30, First + CPU: 500, First + Wall: 400, Second + CPU: 50,
				Second + Wall: 40},
			{CPU: 99, Wall: 99, Bytes: 2048, Allocs: 30, First + CPU: 500, First + Wall: 400, Second + CPU: 50,
				Second + Wall: 40},
			{CPU: 10, Wall: 8, Bytes: 2048, Allocs: 30, First + CPU: 500, First + Wall: 400, Second + CPU: 50,
				Second + Wall: 40},
		},
		decidebench.KubeScheduler: {{CPU: 1000, Wall: 600, Bytes: 1 << 20, Allocs: 5000}},
	} {
		for _, v := range values {
			if err := r.Add(map[string]string{"kind": "basic", "nodes": "1000", "contender": contender},
				v); err != nil {
				t.Fatal(err)
			}
		}
	}
	tables := Tables(r)
	if len(tables) != 1 {
		t.Fatalf("%d tables", len(tables))
	}
	want := []string{"basic", "10.0 (8.00)", "500 (400)", "50.0 (40.0)", "1,000 (600)", "100 (75.0)", "", "", "2.00",
		"1,024", "30", "5,000"}
	if got := tables[0].Rows[0]; !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if !strings.Contains(tables[0].Title, "1,000 nodes") || len(tables[0].Header) != len(want) {
		t.Errorf("%s: %q", tables[0].Title, tables[0].Header)
	}
}

func TestGrowthIsTheLastSizeByTheOneBefore(t *testing.T) {
	r := newReport(t)
	for nodes, cpu := range map[string]float64{"5000": 20, "15000": 25} {
		if err := r.Add(map[string]string{"kind": "basic", "nodes": nodes, "contender": decidebench.Livesched},
			map[string]float64{CPU: cpu}); err != nil {
			t.Fatal(err)
		}
	}
	slices.SortFunc(r.Rows, func(a, b report.Row) int { return len(a.Labels["nodes"]) - len(b.Labels["nodes"]) })
	if got, want := growth(r.Rows).Rows[0], []string{"basic", "20.0", "25.0", "1.25"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWrongFlagsAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"--kinds", "huge"}, {"--nodes", "0"}, {"--pods", "0"}, {"--rounds", "0"}, {"--contenders", "nobody"},
		{"--exact-pods=-1"}, {"extra"},
	} {
		cmd := Command()
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetArgs(append(args, "--out", ""))
		if err := cmd.Execute(); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
}

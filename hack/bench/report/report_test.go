// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func labels(kind string) map[string]string { return map[string]string{"kind": kind} }

func mustAdd(t *testing.T, r *Report, kind string, values map[string]float64) {
	t.Helper()
	if err := r.Add(labels(kind), values); err != nil {
		t.Fatal(err)
	}
}

func TestQuantiles(t *testing.T) {
	for _, test := range []struct {
		values []float64
		share  float64
		want   float64
	}{
		{[]float64{3, 1, 2}, 0.5, 2},
		{[]float64{4, 3, 1, 2}, 0.5, 2}, // the lower one of two
		{[]float64{3, 1, 2}, 1, 3},
		{[]float64{3, 1, 2}, 0, 1},
		{[]float64{7}, 0.99, 7},
	} {
		if got := Quantile(test.values, test.share); got != test.want {
			t.Errorf("Quantile(%v, %v) is %v, want %v", test.values, test.share, got, test.want)
		}
	}
	if got := Quantile(nil, 0.5); !math.IsNaN(got) {
		t.Errorf("the median of nothing is %v", got)
	}
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(i + 1)
	}
	if got := Quantile(hundred, 0.99); got != 99 {
		t.Errorf("p99 of 1..100 is %v", got)
	}
	values := []float64{2, 1}
	Quantile(values, 0.5)
	if values[0] != 2 {
		t.Error("Quantile has sorted the values of its caller")
	}
}

func TestNumbersAreWrittenWithThreeDigits(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 0.004: "0.00", 0.1234: "0.12", 1.236: "1.24", 9.994: "9.99", 9.996: "10.0", 12.34: "12.3",
		99.94: "99.9", 99.96: "100",
		123.4: "123", 1234: "1,234", 1234567: "1,234,567", -1234: "-1,234", -0.5: "-0.50", 999999.6: "1,000,000",
	} {
		if got := Number(x); got != want {
			t.Errorf("Number(%v) is %q, want %q", x, got, want)
		}
	}
	if got := Number(math.NaN()) + Whole(math.NaN()) + Ratio(1, math.NaN()) + Ratio(1, 0); got != "" {
		t.Errorf("what is missing is written as %q", got)
	}
	if got := Ratio(30, 20); got != "1.50" {
		t.Errorf("Ratio(30, 20) is %q", got)
	}
	if got := Whole(12.6); got != "13" {
		t.Errorf("Whole(12.6) is %q", got)
	}
}

func TestWhatIsAddedIsInTheFileAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new", "decision.json")
	r, err := New("decision", file, map[string]string{"pods": "7"})
	if err != nil {
		t.Fatal(err)
	}
	mustAdd(t, r, "basic", map[string]float64{"us/pod": 3})
	mustAdd(t, r, "anti", map[string]float64{"us/pod": 9})
	mustAdd(t, r, "basic", map[string]float64{"us/pod": 5, "B/pod": 100})
	got, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	want := Rows{
		{Labels: labels("basic"), Values: map[string][]float64{"us/pod": {3, 5}, "B/pod": {100}}},
		{Labels: labels("anti"), Values: map[string][]float64{"us/pod": {9}}},
	}
	if !reflect.DeepEqual(got.Rows, want) {
		t.Errorf("rows %v, want %v", got.Rows, want)
	}
	if got.Benchmark != "decision" || got.Parameters["pods"] != "7" || !got.Date.Equal(r.Date) ||
		got.Machine.CPUs == 0 || got.Machine != r.Machine {
		t.Errorf("read back: %+v", got)
	}
	left, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(left) != 1 {
		t.Errorf("files %v, %v", left, err)
	}
}

// TestTheSchemaIsTheDocumentedOne checks that the package comment describes what Report writes.
func TestTheSchemaIsTheDocumentedOne(t *testing.T) {
	r, err := New("decision", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	mustAdd(t, r, "basic", map[string]float64{"us/pod": 3})
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"benchmark", "date", "commit", "machine", "parameters", "rows"} {
		if _, ok := fields[name]; !ok {
			t.Errorf("there is no %q in %s", name, text)
		}
		delete(fields, name)
	}
	if len(fields) > 0 {
		t.Errorf("not documented: %v", fields)
	}
}

func TestPartsArePutTogether(t *testing.T) {
	dir := t.TempDir()
	write := func(name, benchmark string, values map[string]float64) string {
		file := filepath.Join(dir, name)
		r, err := New(benchmark, file, nil)
		if err != nil {
			t.Fatal(err)
		}
		for kind, value := range values {
			mustAdd(t, r, kind, map[string]float64{"us/pod": value})
		}
		return file
	}
	first := write("1", "decision", map[string]float64{"basic": 1})
	second := write("2", "decision", map[string]float64{"anti": 2})
	again := write("3", "decision", map[string]float64{"basic": 3})
	r, err := Read(first, second, again)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Rows.Each("kind"); !reflect.DeepEqual(got, []string{"basic", "anti"}) {
		t.Errorf("kinds %v", got)
	}
	if got := r.Rows.Where("kind", "basic").Median("us/pod"); got != 3 {
		t.Errorf("basic is %v, but the last file says 3", got)
	}
	if _, err := Read(first, write("4", "scale", nil)); err == nil {
		t.Error("files of two benchmarks are put together")
	}
	wrong := filepath.Join(dir, "5")
	if err := os.WriteFile(wrong, []byte(`{"rows":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(wrong); err == nil {
		t.Error("a file that is no report is read")
	}
	if _, err := Read(); err == nil {
		t.Error("nothing is read")
	}
}

func TestARunContinues(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubernetes.json")
	for i, kind := range []string{"basic", "anti"} {
		r, err := Continue("kubernetes", file, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Rows) != i {
			t.Errorf("run %d begins with %d rows", i, len(r.Rows))
		}
		mustAdd(t, r, kind, map[string]float64{"us/pod": 1})
	}
	if r, err := Read(file); err != nil || len(r.Rows) != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := Continue("scale", file, nil); err == nil {
		t.Error("the report of another benchmark is continued")
	}
}

func TestTheLatestRunWinsInWhateverOrderFilesAreNamed(t *testing.T) {
	dir := t.TempDir()
	write := func(day, value string) string {
		file := filepath.Join(dir, day)
		text := `{"benchmark": "decision", "date": "2026-11-` + day +
			`T00:00:00Z", "rows": [{"labels": {"kind": "basic"}, "values": {"us/pod": [` + value + `]}}]}`
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	earlier, later := write("21", "1"), write("22", "2")
	for _, files := range [][]string{{earlier, later}, {later, earlier}} {
		r, err := Read(files...)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Rows.Where("kind", "basic").Median("us/pod"); got != 2 || r.Date.Day() != 22 {
			t.Errorf("%v: basic is %v, of %v; want that of the 22nd", files, got, r.Date)
		}
	}
}

func TestTablesAsTextAndMarkdown(t *testing.T) {
	table := Table{Title: "What it takes", Header: []string{"pods", "us"}}
	table.Add("basic", "3")
	var text, markdown bytes.Buffer
	if err := table.Text(&text); err != nil {
		t.Fatal(err)
	}
	if err := table.Markdown(&markdown); err != nil {
		t.Fatal(err)
	}
	if want := "What it takes\n\npods   us\nbasic  3\n"; text.String() != want {
		t.Errorf("text is %q, want %q", text.String(), want)
	}
	if want := "What it takes:\n\n| pods | us |\n|---|---|\n| basic | 3 |\n"; markdown.String() != want {
		t.Errorf("Markdown is %q, want %q", markdown.String(), want)
	}
}

func TestBarsAndLinesAreOfMedians(t *testing.T) {
	rows := Rows{
		{Labels: map[string]string{"kind": "anti", "nodes": "20"}, Values: map[string][]float64{"us": {7}}},
		{Labels: map[string]string{"kind": "basic", "nodes": "10"}, Values: map[string][]float64{"us": {1, 5, 3}}},
		{Labels: map[string]string{"kind": "odd", "nodes": "many"}, Values: map[string][]float64{"us": {7}}},
		{Labels: map[string]string{"kind": "empty", "nodes": "30"}},
	}
	if got := rows.Bars("ours", "kind", []string{"anti", "none", "basic"}, "us"); !reflect.DeepEqual(got.Y,
		[]float64{7, 0, 3}) {
		t.Errorf("bars %v", got)
	}
	if got := rows.Line("ours", "nodes", "us"); !reflect.DeepEqual(got.X, []float64{10, 20}) ||
		!reflect.DeepEqual(got.Y, []float64{3, 7}) {
		t.Errorf("line %v", got)
	}
}

func TestParametersAreTheFlagsOfTheCommand(t *testing.T) {
	cmd := &cobra.Command{Use: "scale", RunE: func(*cobra.Command, []string) error { return nil }}
	var nodes []int
	cmd.Flags().IntSliceVar(&nodes, "nodes", []int{1, 2}, "")
	AddFlags(cmd)
	file := filepath.Join(t.TempDir(), "x.json")
	cmd.SetArgs([]string{"--nodes", "3,4", "--out", file})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	r, err := begin(cmd)
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string]string{"nodes": "3,4"}; r.Benchmark != "scale" || !reflect.DeepEqual(r.Parameters, want) {
		t.Errorf("%s: %v, want %v", r.Benchmark, r.Parameters, want)
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("there is no file: %v", err)
	}
}

func TestWrongFlagsAreNamedWithWhatIsAllowed(t *testing.T) {
	known := []string{"basic", "anti"}
	if err := OneOf("kinds", []string{"anti"}, known); err != nil {
		t.Error(err)
	}
	if err := Positive("pods", 1, 2); err != nil {
		t.Error(err)
	}
	for _, err := range []error{OneOf("kinds", []string{"anti", "huge"}, known), OneOf("kinds", nil, known)} {
		if err == nil || !strings.Contains(err.Error(), "--kinds") || !strings.Contains(err.Error(), "basic, anti") {
			t.Errorf("the error is %v", err)
		}
	}
	if err := Positive("pods", 1, 0); err == nil || !strings.Contains(err.Error(), "--pods 0") {
		t.Errorf("the error is %v", err)
	}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report holds the results of the benchmarks, from which the tables and charts are made.
// Each run of one benchmark writes a JSON file:
//
//	{
//	  "benchmark": "throughput",                        the subcommand of hack/bench
//	  "date": "2026-01-31T12:00:00Z",                   when it began
//	  "commit": "0123abcd",                             of the repository; "-dirty" is appended if files were changed
//	  "machine": {"cpu": "...", "cpus": 2, "memoryGiB": 24, "os": "linux/amd64", "go": "go1.26.0"},
//	  "parameters": {"pods": "2000", "runs": "3"},      the flags as they were
//	  "rows": [{
//	    "labels": {"kind": "basic", "nodes": "1000", "contender": "livesched"},
//	    "values": {"pods/s": [812, 790, 805], ...}      a number for each round; tables show medians
//	  }, ...]
//	}
//
// Each benchmark defines its labels and values. The name of a value includes its unit. Rows are
// appended as they are measured, so that the file of an interrupted run has all rows up to then.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Report is a run of one benchmark.
type Report struct {
	Benchmark  string            `json:"benchmark"`
	Date       time.Time         `json:"date"`
	Commit     string            `json:"commit"`
	Machine    Machine           `json:"machine"`
	Parameters map[string]string `json:"parameters"`
	Rows       Rows              `json:"rows"`

	file string
}

// Row holds the measurements of one subject, which its labels identify.
type Row struct {
	Labels map[string]string    `json:"labels"`
	Values map[string][]float64 `json:"values"`
}

// Rows are the rows of tables and charts.
type Rows []Row

// New begins a report. It writes rows to the file as they are added. With an empty name it writes
// no file.
func New(benchmark, file string, parameters map[string]string) (*Report, error) {
	r := &Report{
		Benchmark: benchmark, Date: time.Now().UTC().Truncate(time.Second), Commit: commit(), Machine: thisMachine(),
		Parameters: parameters, Rows: Rows{}, file: file,
	}
	return r, r.write() // finds a file that cannot be written before an hour of measurements
}

// Continue is New, except that the rows of the file stay if it exists: a benchmark that takes long
// measures what they do not have.
func Continue(benchmark, file string, parameters map[string]string) (*Report, error) {
	var rows Rows
	before, err := Read(file)
	switch {
	case err == nil && before.Benchmark != benchmark:
		return nil, fmt.Errorf("%s is of benchmark %s", file, before.Benchmark)
	case err == nil:
		rows = before.Rows
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	r, err := New(benchmark, "", parameters)
	if err != nil {
		return nil, err
	}
	r.Rows, r.file = append(r.Rows, rows...), file
	return r, r.write()
}

// Add adds a row, or values to the row with the same labels, and writes the file.
func (r *Report) Add(labels map[string]string, values map[string]float64) error {
	row := r.Rows.find(labels)
	if row == nil {
		r.Rows = append(r.Rows, Row{Labels: maps.Clone(labels), Values: map[string][]float64{}})
		row = &r.Rows[len(r.Rows)-1]
	}
	for name, value := range values {
		row.Values[name] = append(row.Values[name], value)
	}
	return r.write()
}

// write replaces the file as a whole, so that the file is always complete.
func (r *Report) write() error {
	if r.file == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("writing %s: %w", r.file, err)
	}
	if err := os.MkdirAll(filepath.Dir(r.file), 0o755); err != nil {
		return err
	}
	next := r.file + ".next"
	if err := os.WriteFile(next, append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(next, r.file)
}

// Read reads reports of one benchmark and merges their rows. If several files have a row with the
// same labels, the latest run wins. Date, commit, machine and parameters are those of the latest
// run.
func Read(files ...string) (*Report, error) {
	var runs []*Report
	for _, file := range files {
		r := &Report{}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, r); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		switch {
		case r.Benchmark == "":
			return nil, fmt.Errorf("%s is not a report: it names no benchmark", file)
		case len(runs) > 0 && runs[0].Benchmark != r.Benchmark:
			return nil, fmt.Errorf("%s is of benchmark %s, the files before it are of %s", file, r.Benchmark,
				runs[0].Benchmark)
		}
		runs = append(runs, r)
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("no files to read reports from")
	}
	slices.SortStableFunc(runs, func(a, b *Report) int { return a.Date.Compare(b.Date) })
	all := runs[0]
	for _, r := range runs[1:] {
		r.Rows = all.Rows.with(r.Rows)
		all = r
	}
	return all, nil
}

// with returns the rows with the others added. A row with the same labels is replaced.
func (rows Rows) with(others Rows) Rows {
	all := slices.Clone(rows)
	for _, other := range others {
		if row := all.find(other.Labels); row != nil {
			*row = other
			continue
		}
		all = append(all, other)
	}
	return all
}

// find returns the row with exactly these labels, or nil.
func (rows Rows) find(labels map[string]string) *Row {
	i := slices.IndexFunc(rows, func(r Row) bool { return maps.Equal(r.Labels, labels) })
	if i < 0 {
		return nil
	}
	return &rows[i]
}

// Where returns the rows with a given value of a label, in their order.
func (rows Rows) Where(label, value string) Rows {
	var out Rows
	for _, row := range rows {
		if row.Labels[label] == value {
			out = append(out, row)
		}
	}
	return out
}

// Each returns the values of a label, in the order in which rows first have them.
func (rows Rows) Each(label string) []string {
	var out []string
	for _, row := range rows {
		if value, ok := row.Labels[label]; ok && !slices.Contains(out, value) {
			out = append(out, value)
		}
	}
	return out
}

// Median returns the median of a value of the first row, or NaN if there is no row or no such
// value.
func (rows Rows) Median(value string) float64 { return rows.Quantile(value, 0.5) }

// Quantile is like Median, with a given share in place of one half.
func (rows Rows) Quantile(value string, share float64) float64 {
	if len(rows) == 0 {
		return Quantile(nil, share)
	}
	return Quantile(rows[0].Values[value], share)
}

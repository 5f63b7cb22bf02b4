// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/livesched/livesched/hack/bench/chart"
	"github.com/livesched/livesched/hack/bench/decision"
	"github.com/livesched/livesched/hack/bench/fragmentation"
	"github.com/livesched/livesched/hack/bench/kubernetes"
	"github.com/livesched/livesched/hack/bench/reload"
	"github.com/livesched/livesched/hack/bench/report"
	"github.com/livesched/livesched/hack/bench/rollout"
	"github.com/livesched/livesched/hack/bench/scale"
	"github.com/livesched/livesched/hack/bench/throughput"
)

// results holds the functions that make tables and charts from the report of each benchmark.
var results = map[string]struct {
	tables func(*report.Report) []report.Table
	charts func(*report.Report) []chart.Chart
}{
	"decision":      {decision.Tables, decision.Charts},
	"throughput":    {throughput.Tables, throughput.Charts},
	"reload":        {reload.Tables, reload.Charts},
	"rollout":       {rollout.Tables, rollout.Charts},
	"scale":         {scale.Tables, scale.Charts},
	"fragmentation": {fragmentation.Tables, fragmentation.Charts},
	"kubernetes":    {kubernetes.Tables, kubernetes.Charts},
}

// tableCommand prints the tables of reports.
func tableCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "table FILE...",
		Short: "Print the tables of JSON files of one benchmark as Markdown",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, files []string) error {
			r, err := read(files)
			if err != nil {
				return err
			}
			for _, table := range results[r.Benchmark].tables(r) {
				if err := table.Markdown(os.Stdout); err != nil {
					return err
				}
				fmt.Println()
			}
			fmt.Printf("Measured %s at commit %s on %d CPUs (%s), %d GiB, %s.\n",
				r.Date.Format("2006-01-02"), r.Commit, r.Machine.CPUs, r.Machine.CPU, r.Machine.MemoryGiB, r.Machine.Go)
			return nil
		},
	}
}

// plotCommand returns the subcommand that draws the charts of reports. The module in
// hack/bench/plot draws them.
func plotCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "plot FILE...",
		Short: "Draw the charts of JSON files of one benchmark as SVG",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			r, err := read(files)
			if err != nil {
				return err
			}
			text, err := json.Marshal(results[r.Benchmark].charts(r))
			if err != nil {
				return err
			}
			into, err := filepath.Abs(dir)
			if err != nil {
				return err
			}
			draw := exec.CommandContext(cmd.Context(), "go", "run", "-C", filepath.Join("hack", "bench", "plot"),
				".", into)
			draw.Stdin, draw.Stdout, draw.Stderr = bytes.NewReader(text), os.Stdout, os.Stderr
			return draw.Run()
		},
	}
	cmd.Flags().StringVar(&dir, "dir", filepath.Join("docs", "benchmarks"), "where the charts go")
	return cmd
}

// read reads reports of a known benchmark.
func read(files []string) (*report.Report, error) {
	r, err := report.Read(files...)
	if err != nil {
		return nil, err
	}
	if _, ok := results[r.Benchmark]; !ok {
		return nil, fmt.Errorf("%s is of benchmark %q, which is not one of ours", files[len(files)-1], r.Benchmark)
	}
	return r, nil
}

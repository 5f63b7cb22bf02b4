// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Command plot reads charts as JSON from standard input and draws each to an SVG file in the
// directory that is its only argument. `hack/bench plot` runs it. It is a module of its own, so
// that livesched's module does not need the drawing libraries.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/livesched/livesched/hack/bench/chart"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: plot DIRECTORY <CHARTS.json")
		os.Exit(2)
	}
	if err := drawAll(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "plot:", err)
		os.Exit(1)
	}
}

func drawAll(dir string) error {
	var charts []chart.Chart
	if err := json.NewDecoder(os.Stdin).Decode(&charts); err != nil {
		return fmt.Errorf("reading the charts: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, c := range charts {
		content, err := svg(c)
		if err != nil {
			return fmt.Errorf("chart %s: %w", c.File, err)
		}
		file := filepath.Join(dir, c.File+".svg")
		if err := os.WriteFile(file, content, 0o644); err != nil {
			return fmt.Errorf("chart %s: %w", c.File, err)
		}
		fmt.Println(file)
	}
	return nil
}

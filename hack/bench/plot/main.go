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

	"gonum.org/v1/plot/vg"

	"github.com/livesched/livesched/hack/bench/chart"
)

const width, height = 24 * vg.Centimeter, 12 * vg.Centimeter

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
		p, err := draw(c)
		if err != nil {
			return fmt.Errorf("chart %s: %w", c.File, err)
		}
		file := filepath.Join(dir, c.File+".svg")
		if err := p.Save(width, height, file); err != nil {
			return fmt.Errorf("chart %s: %w", c.File, err)
		}
		fmt.Println(file)
	}
	return nil
}

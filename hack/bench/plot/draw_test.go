// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/livesched/livesched/hack/bench/chart"
)

// svg draws a chart and returns the content of the file.
func svg(t *testing.T, c chart.Chart) string {
	t.Helper()
	p, err := draw(c)
	if err != nil {
		t.Fatal(err)
	}
	w, err := p.WriterTo(width, height, "svg")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestBarsAndLinesAreDrawnWithTheirNames(t *testing.T) {
	for name, c := range map[string]chart.Chart{
		"bars":             {Groups: []string{"basic", "anti"}, Series: []chart.Series{{Name: "ours", Y: []float64{3, 4}}, {Name: "theirs", Y: []float64{0, 7}}}},
		"logarithmic bars": {LogY: true, Groups: []string{"basic", "anti"}, Series: []chart.Series{{Name: "ours", Y: []float64{0.3, 4000}}, {Name: "theirs", Y: []float64{0, 7}}}},
		"lines": {LogX: true, LogY: true, Series: []chart.Series{
			{Name: "ours", X: []float64{1000, 5000}, Y: []float64{1, 2}}, {Name: "theirs", X: []float64{1000}, Y: []float64{9}, Dashed: true},
		}},
	} {
		c.Title, c.X, c.Y = "What it takes", "nodes", "us/pod"
		text := svg(t, c)
		for _, want := range append([]string{"What it takes", "nodes", "us/pod", "ours", "theirs"}, c.Groups...) {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the chart has no %q", name, want)
			}
		}
		if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
			t.Errorf("%s: the chart has coordinates that are no numbers", name)
		}
	}
}

func TestLogarithmicAxesAreLabelledWithPowers(t *testing.T) {
	labels := map[string]float64{}
	for _, tick := range (powers{zero: -1}).Ticks(0, 3.5) {
		if tick.Label != "" {
			labels[tick.Label] = tick.Value
		}
	}
	for label, want := range map[string]float64{"0.1": 0, "1": 1, "10": 2, "100": 3} {
		if got, ok := labels[label]; !ok || got != want {
			t.Errorf("%s is at %v (%v), want %v", label, got, ok, want)
		}
	}
	if len(labels) != 4 {
		t.Errorf("labels %v", labels)
	}
}

func TestChartsThatDoNotFitTogetherAreRefused(t *testing.T) {
	for _, c := range []chart.Chart{
		{Groups: []string{"a", "b"}, Series: []chart.Series{{Name: "ours", Y: []float64{1}}}},
		{Series: []chart.Series{{Name: "ours", X: []float64{1, 2}, Y: []float64{1}}}},
	} {
		if _, err := draw(c); err == nil {
			t.Errorf("%+v is drawn", c)
		}
	}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/livesched/livesched/hack/bench/chart"
)

// drawn draws a chart and returns the content of the file.
func drawn(t *testing.T, c chart.Chart) string {
	t.Helper()
	content, err := svg(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestBarsAndLinesAreDrawnWithTheirNames(t *testing.T) {
	for name, c := range map[string]chart.Chart{
		"bars": {Groups: []string{"basic", "anti"},
			Series: []chart.Series{{Name: "ours", Y: []float64{3, 4}}, {Name: "theirs", Y: []float64{0, 7}}}},
		"logarithmic bars": {LogY: true, Groups: []string{"basic", "anti"},
			Series: []chart.Series{{Name: "ours", Y: []float64{0.3, 4000}}, {Name: "theirs", Y: []float64{0, 7}}}},
		"lines": {LogX: true, LogY: true, Series: []chart.Series{
			{Name: "ours", X: []float64{1000, 5000}, Y: []float64{1, 2}},
			{Name: "theirs", X: []float64{1000}, Y: []float64{9}, Dashed: true},
		}},
	} {
		c.Title, c.X, c.Y = "What it takes", "nodes", "us/pod"
		text := drawn(t, c)
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

func TestLinearAxesAreLabelledWithRoundValues(t *testing.T) {
	for highest, want := range map[float64]string{
		1: "0 0.2 0.4 0.6 0.8 1", 2937: "0 500 1000 1500 2000 2500", 7.2: "0 1 2 3 4 5 6 7", 40: "0 10 20 30 40",
	} {
		var labels []string
		for _, tick := range (steps{}).Ticks(0, highest) {
			labels = append(labels, tick.Label)
		}
		if got := strings.Join(labels, " "); got != want {
			t.Errorf("up to %v: %s, want %s", highest, got, want)
		}
	}
}

func TestChartsThatDoNotFitTogetherAreRefused(t *testing.T) {
	for _, c := range []chart.Chart{
		{Groups: []string{"a", "b"}, Series: []chart.Series{{Name: "ours", Y: []float64{1}}}},
		{Series: []chart.Series{{Name: "ours", X: []float64{1, 2}, Y: []float64{1}}}},
	} {
		if _, err := svg(c); err == nil {
			t.Errorf("%+v is drawn", c)
		}
	}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"

	"github.com/livesched/livesched/hack/bench/chart"
)

// TestNothingIsCutOffOrCovered draws charts with long names, and looks at every horizontal text of
// the file: it is inside the picture, and covers neither another text nor a bar.
func TestNothingIsCutOffOrCovered(t *testing.T) {
	kinds := []string{"basic", "spread", "anti", "affinity", "owned", "mixed", "unique", "unschedulable", "churn",
		"preemption"}
	of := func(y float64) []float64 {
		var all []float64
		for range kinds {
			all = append(all, y)
		}
		return all
	}
	for name, c := range map[string]chart.Chart{
		"bars": {Groups: kinds,
			Series: []chart.Series{{Name: "bind-only", Y: of(2000)}, {Name: "kube-scheduler", Y: of(100)},
				{Name: "livesched", Y: of(2600)}}},
		"logarithmic bars": {LogY: true, Groups: kinds, Series: []chart.Series{
			{Name: "livesched, first of a class", Y: of(100000)}, {Name: "kube-scheduler-100", Y: of(9)},
		}},
		"lines": {LogX: true, Series: []chart.Series{
			{Name: "first decision, unschedulable pods", X: []float64{5000, 15000, 100000}, Y: []float64{0.1, 0.5, 1}},
			{Name: "standstill, unschedulable pods", X: []float64{5000, 15000, 100000}, Y: []float64{0.2, 0.5, 1}},
			{Name: "first decision, a backlog of active pods", X: []float64{5000}, Y: []float64{0.1}},
			{Name: "standstill, a backlog of active pods", X: []float64{5000}, Y: []float64{0.1}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c.Title, c.X, c.Y = "End to end", "pods", "pods/s"
			boxes := texts(t, drawn(t, c))
			if want := len(c.Groups) + len(c.Series) + 2; len(boxes) < want {
				t.Fatalf("%d texts, want at least %d", len(boxes), want)
			}
			for i, box := range boxes {
				if box.Min.X < 2 || box.Max.X > width-2 || box.Min.Y < 1 || box.Max.Y > height-1 {
					t.Errorf("%q is cut off: it is at %v", box.text, box.Rectangle)
				}
				for _, other := range boxes[:i] {
					if overlap(box.Rectangle, other.Rectangle) {
						t.Errorf("%q covers %q", box.text, other.text)
					}
				}
				for _, bar := range filled(drawn(t, c)) {
					if overlap(box.Rectangle, bar) {
						t.Errorf("%q is over a box at %v", box.text, bar)
					}
				}
			}
		})
	}
}

type textBox struct {
	vg.Rectangle
	text string
}

var textElement = regexp.MustCompile(`(?s)<text x="([-\d.]+)" y="([-\d.]+)"[^>]*font-size:([\d.]+)px">([^<]*)</text>`)

// texts returns the texts of an SVG file, but for the title of the Y axis, which is turned.
func texts(t *testing.T, file string) []textBox {
	t.Helper()
	var boxes []textBox
	for _, found := range textElement.FindAllStringSubmatch(file, -1) {
		if found[4] == "pods/s" {
			continue
		}
		size := number(t, found[3])
		style := text.Style{Font: font.From(typeface, vg.Length(size)), Handler: plot.DefaultTextHandler}
		at := vg.Point{X: vg.Length(number(t, found[1])), Y: -vg.Length(number(t, found[2]))}
		boxes = append(boxes, textBox{style.Rectangle(found[4]).Add(at), found[4]})
	}
	return boxes
}

func number(t *testing.T, s string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

var fill = regexp.MustCompile(`<path d="([ML][^"]*)Z" style="fill:#([0-9A-F]{6})`)

// filled returns the colored boxes of an SVG file: bars, and the symbols of the legend.
func filled(file string) []vg.Rectangle {
	var boxes []vg.Rectangle
	for _, found := range fill.FindAllStringSubmatch(file, -1) {
		if found[2] == "FFFFFF" {
			continue
		}
		var box vg.Rectangle
		for i, corner := range strings.FieldsFunc(found[1], func(r rune) bool { return r == 'M' || r == 'L' }) {
			var x, y float64
			if _, err := fmt.Sscanf(corner, "%g,%g", &x, &y); err != nil {
				continue
			}
			at := vg.Point{X: vg.Length(x), Y: vg.Length(y)}
			if i == 0 {
				box = vg.Rectangle{Min: at, Max: at}
			}
			box.Min.X, box.Max.X = min(box.Min.X, at.X), max(box.Max.X, at.X)
			box.Min.Y, box.Max.Y = min(box.Min.Y, at.Y), max(box.Max.Y, at.Y)
		}
		boxes = append(boxes, box)
	}
	return boxes
}

func overlap(a, b vg.Rectangle) bool {
	return a.Min.X < b.Max.X && b.Min.X < a.Max.X && a.Min.Y < b.Max.Y && b.Min.Y < a.Max.Y
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"

	"github.com/livesched/livesched/hack/bench/chart"
)

// groupWidth is the share of a group's space on the axis that its bars take together.
const groupWidth = 0.8

// typeface is as wide as Arial and Helvetica, so that texts have the same size wherever the chart
// is shown.
var typeface = font.Font{Typeface: "Liberation", Variant: "Sans"}

// figure is a plot with its legend, which has a place of its own below the plot.
type figure struct {
	plot *plot.Plot
	// keys has a legend for each series, because gonum draws the entries of a legend in a column.
	keys []plot.Legend
}

func (f *figure) addKey(name string, symbols ...plot.Thumbnailer) {
	key := plot.NewLegend()
	key.TextStyle.Font = font.From(typeface, 11)
	key.Left, key.Top = true, true // the symbol, then the text
	key.Add(name, symbols...)
	f.keys = append(f.keys, key)
}

func newFigure(c chart.Chart) (*figure, error) {
	f := &figure{plot: plot.New()}
	p := f.plot
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.Title, c.X, c.Y
	p.Title.TextStyle.Font = font.From(typeface, 13)
	p.Title.Padding = vg.Points(8)
	p.X.Label.TextStyle.Font, p.Y.Label.TextStyle.Font = font.From(typeface, 11), font.From(typeface, 11)
	p.X.Tick.Label.Font, p.Y.Tick.Label.Font = font.From(typeface, 8), font.From(typeface, 9)
	grid := plotter.NewGrid()
	grid.Vertical.Color = nil
	grid.Horizontal.Color = color.Gray{Y: 220}
	p.Add(grid)
	if len(c.Groups) > 0 {
		return f, f.bars(c)
	}
	return f, f.lines(c)
}

// bars draws bars from the bottom of the chart. The bottom of a logarithmic chart is 1, or the
// power of ten below the lowest bar.
func (f *figure) bars(c chart.Chart) error {
	p := f.plot
	bottom, top := 0.0, 0.0
	for _, s := range c.Series {
		if len(s.Y) != len(c.Groups) {
			return fmt.Errorf("series %s has %d bars for %d groups", s.Name, len(s.Y), len(c.Groups))
		}
		for _, y := range s.Y {
			if c.LogY && y > 0 {
				bottom = min(bottom, math.Floor(math.Log10(y)))
			}
			top = max(top, scaled(y, c.LogY))
		}
	}
	one := width * 0.85 * groupWidth / vg.Length(len(c.Groups)*len(c.Series))
	for i, s := range c.Series {
		values := make(plotter.Values, len(s.Y))
		for g, y := range s.Y {
			if y > 0 {
				values[g] = scaled(y, c.LogY) - bottom
			}
		}
		bar, err := plotter.NewBarChart(values, one)
		if err != nil {
			return err
		}
		bar.Color = colorOf(i)
		bar.LineStyle.Width = 0
		bar.Offset = one * (vg.Length(i) - vg.Length(len(c.Series)-1)/2)
		p.Add(bar)
		f.addKey(s.Name, bar)
	}
	p.NominalX(c.Groups...)
	p.X.Min, p.X.Max = -0.5, float64(len(c.Groups))-0.5
	p.Y.Tick.Marker = steps{}
	if c.LogY {
		p.Y.Tick.Marker = powers{zero: bottom}
	}
	p.Y.Min, p.Y.Max = 0, (top-bottom)*1.05
	return nil
}

func (f *figure) lines(c chart.Chart) error {
	p := f.plot
	for i, s := range c.Series {
		if len(s.X) != len(s.Y) {
			return fmt.Errorf("line %s has %d and %d coordinates", s.Name, len(s.X), len(s.Y))
		}
		points := make(plotter.XYs, len(s.X))
		for j := range points {
			points[j] = plotter.XY{X: scaled(s.X[j], c.LogX), Y: scaled(s.Y[j], c.LogY)}
		}
		line, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return fmt.Errorf("line %s: %w", s.Name, err)
		}
		line.Color, marks.Color = colorOf(i), colorOf(i)
		line.Width = vg.Points(1.5)
		if s.Dashed {
			line.Dashes = plotutil.Dashes(1)
		}
		p.Add(line, marks)
		f.addKey(s.Name, line, marks)
	}
	if c.LogX {
		p.X.Tick.Marker = ticksOf(c)
	}
	if c.LogY {
		p.Y.Tick.Marker = powers{}
		p.Y.Min, p.Y.Max = math.Floor(p.Y.Min), math.Ceil(p.Y.Max)
	} else {
		p.Y.Tick.Marker = steps{}
		p.Y.Min = 0
	}
	return nil
}

// colorOf returns the color of a series. Of up to eight, no two have the same.
func colorOf(series int) color.Color {
	colors := append(plotutil.SoftColors[:7:7], color.Gray{Y: 70})
	return colors[series%len(colors)]
}

// scaled returns the position of a value on an axis. A logarithmic axis holds exponents and labels
// them with powers of ten, because a bar must have a position to begin at.
func scaled(value float64, log bool) float64 {
	if log {
		return math.Log10(value)
	}
	return value
}

// maxMeasured is the number of measured X values up to which the axis labels each of them.
const maxMeasured = 8

// ticksOf labels the measured values of a logarithmic X axis, or powers of ten if there are too
// many of these values.
func ticksOf(c chart.Chart) plot.Ticker {
	var measured plot.ConstantTicks
	seen := map[float64]bool{}
	for _, s := range c.Series {
		for _, x := range s.X {
			if !seen[x] {
				measured = append(measured, plot.Tick{Value: scaled(x, true), Label: fmt.Sprintf("%.12g", x)})
			}
			seen[x] = true
		}
	}
	if len(measured) > maxMeasured {
		return powers{}
	}
	return measured
}

// powers labels the exponents of an axis as powers of ten.
type powers struct {
	zero float64 // the exponent, a whole number, at position 0 of the axis
}

// Ticks implements plot.Ticker.
func (t powers) Ticks(lowest, highest float64) []plot.Tick {
	var ticks []plot.Tick
	for at := math.Floor(lowest); at <= highest; at++ {
		for step := 1.0; step < 10; step++ {
			tick := plot.Tick{Value: at + math.Log10(step)}
			if step == 1 {
				tick.Label = fmt.Sprintf("%.12g", math.Pow(10, at+t.zero))
			}
			if tick.Value >= lowest && tick.Value <= highest {
				ticks = append(ticks, tick)
			}
		}
	}
	return ticks
}

// steps labels four to ten round values of a linear axis.
type steps struct{}

// Ticks implements plot.Ticker.
func (steps) Ticks(lowest, highest float64) []plot.Tick {
	step := math.Pow(10, math.Floor(math.Log10(highest-lowest)))
	switch wide := (highest - lowest) / step; {
	case wide < 2:
		step /= 5
	case wide < 4:
		step /= 2
	}
	var ticks []plot.Tick
	for n := math.Ceil(lowest / step); n*step <= highest+step/1000; n++ {
		ticks = append(ticks, plot.Tick{Value: n * step, Label: fmt.Sprintf("%.6g", n*step)})
	}
	return ticks
}

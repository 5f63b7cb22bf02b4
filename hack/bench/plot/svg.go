// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/livesched/livesched/hack/bench/chart"
)

const (
	width, height = 24 * vg.Centimeter, 12 * vg.Centimeter
	// margin keeps the last labels of the axes, which are centered at their ticks, in the picture.
	margin = 14
	// wider leaves room for a reader whose font is wider than Arial.
	wider = 1.1
	// keyGap is the space between two entries of the legend, keyHeight that of a row.
	keyGap, keyHeight = 18, 16
)

// svg draws a chart and returns the content of an SVG file.
func svg(c chart.Chart) ([]byte, error) {
	f, err := newFigure(c)
	if err != nil {
		return nil, err
	}
	file := vgsvg.New(width, height)
	picture := draw.New(file)
	picture.SetColor(f.plot.BackgroundColor)
	picture.Fill(picture.Rectangle.Path())
	inner := draw.Crop(picture, margin, -margin, margin/2, -margin)
	legend := f.drawKeys(inner)
	f.plot.Draw(draw.Crop(inner, 0, 0, legend, 0))
	var content bytes.Buffer
	if _, err := file.WriteTo(&content); err != nil {
		return nil, err
	}
	// Few readers have the font of gonum. The others are as wide.
	return bytes.ReplaceAll(content.Bytes(), []byte("font-family:Liberation Sans;"),
		[]byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;")), nil
}

// drawKeys draws the legend in centered rows at the bottom of the canvas, and returns its height.
func (f *figure) drawKeys(c draw.Canvas) vg.Length {
	rows, widths := [][]int{nil}, []vg.Length{0}
	for i := range f.keys {
		wide, last := f.keyWidth(c, i)+keyGap, len(rows)-1
		if len(rows[last]) > 0 && widths[last]+wide > c.Size().X {
			rows, widths, last = append(rows, nil), append(widths, 0), last+1
		}
		rows[last], widths[last] = append(rows[last], i), widths[last]+wide
	}
	for r, row := range rows {
		at := c
		at.Max.Y = c.Min.Y + keyHeight*vg.Length(len(rows)-r)
		at.Min.X += (c.Size().X - widths[r] + keyGap) / 2
		for _, i := range row {
			f.keys[i].Draw(at)
			at.Min.X += f.keyWidth(c, i) + keyGap
		}
	}
	return keyHeight*vg.Length(len(rows)) + margin/2
}

func (f *figure) keyWidth(c draw.Canvas, i int) vg.Length {
	return f.keys[i].Rectangle(c).Size().X * wider
}

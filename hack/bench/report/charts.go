// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/livesched/livesched/hack/bench/chart"
)

// Bars returns the bars of a series: the median of a value for each group, which is a value of a
// label.
func (rows Rows) Bars(name, label string, groups []string, value string) chart.Series {
	s := chart.Series{Name: name}
	for _, group := range groups {
		y := rows.Where(label, group).Median(value)
		if math.IsNaN(y) {
			y = 0 // a value of 0 is not drawn
		}
		s.Y = append(s.Y, y)
	}
	return s
}

// Line returns the line of a value over a label whose values are numbers, from left to right.
func (rows Rows) Line(name, label, value string) chart.Series {
	s := chart.Series{Name: name}
	measured := map[float64]float64{}
	for _, row := range rows {
		x, err := strconv.ParseFloat(row.Labels[label], 64)
		y := Rows{row}.Median(value)
		if err == nil && !math.IsNaN(y) {
			measured[x] = y
		}
	}
	s.X = slices.Sorted(maps.Keys(measured))
	for _, x := range s.X {
		s.Y = append(s.Y, measured[x])
	}
	return s
}

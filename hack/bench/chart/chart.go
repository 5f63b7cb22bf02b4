// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chart describes charts. hack/bench creates them from reports, and hack/bench/plot, a
// module of its own, draws them.
package chart

// Chart is a chart of lines or of groups of bars.
type Chart struct {
	// File is the name of the chart's file without its extension.
	File  string
	Title string
	// X and Y are the titles of the axes, with units.
	X, Y string
	// LogX and LogY make an axis logarithmic.
	LogX, LogY bool
	// Groups are the names of groups of bars, each with one bar for each series. Without groups,
	// the chart has lines.
	Groups []string
	Series []Series
}

// Series is a line or the bars of one color.
type Series struct {
	Name string
	// X are the positions of a line's points, in order. It is empty for bars; then Y has one value
	// for each group.
	X []float64
	// Y are the values. A value of 0 is not drawn.
	Y []float64
	// Dashed marks the series of other schedulers.
	Dashed bool
}

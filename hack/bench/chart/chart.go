// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chart says what is drawn. hack/bench makes charts from reports, and hack/bench/plot, a
// module of its own, draws them.
package chart

// Chart is bars in groups or lines.
type Chart struct {
	// File is the name of the file that the chart is drawn to, without its ending.
	File  string
	Title string
	// X and Y name the axes, with units.
	X, Y string
	// LogY has every step of the Y axis stand for a factor, LogX the same for the X axis.
	LogX, LogY bool
	// Groups are the names of groups of bars, each with a bar of each series. Empty: the chart has
	// lines.
	Groups []string
	Series []Series
}

// Series is the bars of one color, or a line.
type Series struct {
	Name string
	// X are where the points of a line are, in order. Empty for bars, of which Y has one for each
	// group.
	X []float64
	// Y are heights; 0 is not drawn.
	Y []float64
	// Dashed lines are those of somebody else.
	Dashed bool
}

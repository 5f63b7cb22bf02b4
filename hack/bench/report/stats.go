// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"slices"
)

// Quantile returns the smallest value such that at least the given share of all values does not
// exceed it. A share of 1 yields the largest value, 0.5 the median (the lower one of two). It
// returns NaN if there are no values.
func Quantile(values []float64, share float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, min(int(math.Ceil(share*float64(len(sorted))))-1, len(sorted)-1))]
}

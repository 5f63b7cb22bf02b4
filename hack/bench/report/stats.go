// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"slices"
)

// Quantile is the smallest value that a share of all values does not exceed: that of 1 is the
// largest, that of 0.5 the median, the lower one of two. NaN if there are no values.
func Quantile(values []float64, share float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, min(int(math.Ceil(share*float64(len(sorted))))-1, len(sorted)-1))]
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package reload

import (
	"slices"

	"github.com/livesched/livesched/hack/bench/chart"
	"github.com/livesched/livesched/hack/bench/report"
)

// Charts returns one chart: the share of reloads that took at most a given time.
func Charts(r *report.Report) []chart.Chart {
	c := chart.Chart{File: "reload", Title: "Reloads while pods wait", X: "ms",
		Y: "share of the reloads that took at most so long", LogX: true}
	for _, value := range []struct{ name, what string }{{decision, "first decision"}, {standstill, "standstill"}} {
		for _, kind := range r.Rows.Each("pending") {
			line := chart.Series{Name: value.what + ", " + kind, Dashed: value.name == standstill}
			took := slices.Sorted(slices.Values(r.Rows.Where("pending", kind)[0].Values[value.name]))
			for i, ms := range took {
				if ms > 0 { // 0 has no place on the axis
					line.X, line.Y = append(line.X, ms), append(line.Y, float64(i+1)/float64(len(took)))
				}
			}
			if len(line.X) > 1 {
				c.Series = append(c.Series, line)
			}
		}
	}
	if len(c.Series) == 0 {
		return nil
	}
	return []chart.Chart{c}
}

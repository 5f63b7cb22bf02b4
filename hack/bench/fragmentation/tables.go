// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fragmentation

import (
	"fmt"
	"math"
	"slices"

	"github.com/livesched/livesched/hack/bench/chart"
	"github.com/livesched/livesched/hack/bench/report"
)

// published are the results of the paper's authors for the trace with their simulator: the mean
// percentage of GPUs that is allocated when pods have requested 100 % and 130 % of the GPUs. Their
// simulator also chooses among the GPUs of a node.
var published = []struct {
	policy, ours              string
	atCapacity, atTheEndOf130 float64
}{
	{"Random", Random, 86.30, 87.47},
	{"BestFit", MostAllocated, 92.86, 93.08},
	{"FGD", Fragmentation, 95.23, 95.39},
	{"FGD", Packed, 95.23, 95.39},
}

// Tables returns a table of the GPUs that are allocated.
func Tables(r *report.Report) []report.Table {
	var all []report.Table
	for _, arrivals := range r.Rows.Each("arrivals") {
		t := report.Table{
			Title: fmt.Sprintf("GPUs that are allocated, in percent, for pods that request 100 %% and %s %% of them",
				arrivals),
			Header: []string{"policy", "100 %", arrivals + " %", "lowest", "highest", "orders", "pods without a node", "us/pod",
				"published", "100 %", "130 %"},
		}
		rows := r.Rows.Where("arrivals", arrivals)
		for _, policy := range rows.Each("policy") {
			of := rows.Where("policy", policy)[0].Values
			t.Add(append([]string{policy, percentage(mean(of[atCapacity])), percentage(mean(of[inTheEnd])),
				percentage(slices.Min(of[inTheEnd])), percentage(slices.Max(of[inTheEnd])),
				fmt.Sprint(len(of[inTheEnd])), report.Whole(mean(of[unplaced])), report.Whole(mean(of[perPod]))},
				publishedFor(policy)...)...)
		}
		all = append(all, t)
	}
	return all
}

// publishedFor returns the cells for the published result of a policy.
func publishedFor(policy string) []string {
	for _, p := range published {
		if p.ours == policy {
			return []string{p.policy, percentage(p.atCapacity), percentage(p.atTheEndOf130)}
		}
	}
	return []string{"", "", ""}
}

func percentage(x float64) string {
	if math.IsNaN(x) {
		return ""
	}
	return fmt.Sprintf("%.2f", x)
}

func mean(values []float64) float64 {
	var sum float64
	for _, value := range values {
		sum += value
	}
	return sum / float64(len(values))
}

// Charts returns no chart: a table has all.
func Charts(*report.Report) []chart.Chart { return nil }

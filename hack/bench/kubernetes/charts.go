// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"math"
	"slices"

	"github.com/livesched/livesched/hack/bench/chart"
	"github.com/livesched/livesched/hack/bench/report"
)

// Charts returns a chart of how many times better livesched is than kube-scheduler, over all
// workloads that both have finished. Each line has the workloads in its own order, from the worst
// to the best: there are too many for their names.
func Charts(r *report.Report) []chart.Chart {
	var throughput, cpu []float64
	for _, name := range r.Rows.Each(labelWorkload) {
		of := r.Rows.Where(labelWorkload, name).Where(labelStatus, statusOK)
		own, theirs := of.Where(labelContender, livesched), of.Where(labelContender, kubeScheduler)
		rate := own.Median(podsPerSecond) / theirs.Median(podsPerSecond)
		if math.IsNaN(rate) {
			rate = own.Median(wholeRate) / theirs.Median(wholeRate)
		}
		throughput = appendFinite(throughput, rate)
		cpu = appendFinite(cpu, theirs.Median(cpuPerPod)/own.Median(cpuPerPod))
	}
	if len(throughput) == 0 {
		return nil
	}
	return []chart.Chart{{
		File: "kubernetes", Title: "livesched beside kube-scheduler in Kubernetes' own benchmark",
		X: "workloads, from the worst to the best", Y: "times better (1: equal)", LogY: true,
		Series: []chart.Series{sorted("pods/s", throughput), sorted("CPU for each pod", cpu)},
	}}
}

func appendFinite(to []float64, x float64) []float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) || x <= 0 {
		return to
	}
	return append(to, x)
}

func sorted(name string, values []float64) chart.Series {
	s := chart.Series{Name: name, Y: slices.Sorted(slices.Values(values))}
	for i := range s.Y {
		s.X = append(s.X, float64(i+1))
	}
	return s
}

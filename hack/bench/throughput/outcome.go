// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package throughput

import (
	"maps"
	"slices"
	"time"

	"github.com/livesched/livesched/hack/bench/cluster"
	"github.com/livesched/livesched/hack/bench/report"
	"github.com/livesched/livesched/test/workload"
)

// The names of the values.
const (
	// podsPerSecond is the rate from the first bound or refused pod to the last. With preemption it
	// is the rate from the start of the scheduler, because preemption has ended for many pods
	// before the first of them is bound.
	podsPerSecond = "pods/s"
	// firstAfter is the time from the start of the scheduler to that first pod. Only backlogs have
	// it.
	firstAfter = "first ms"
	// latency50 and latency99 are quantiles of the time until the watch saw a pod bound or refused.
	// The time begins with the creation of the pod, or with the start of the scheduler if that was
	// later.
	latency50, latency99 = "p50 ms", "p99 ms"
	// schedulerCPU and apiCPU are from the start of the scheduler to the last pod, its own start
	// included. apiCPU includes etcd.
	schedulerCPU, apiCPU = "scheduler CPU ms/pod", "API server CPU ms/pod"
	// schedulerRSS is the peak memory of the scheduler.
	schedulerRSS = "scheduler peak MiB"
	// decisionTime is the mean time of a decision by the scheduler's own metric.
	decisionTime = "decision us"
	// nodesUsed is the number of nodes with pods, and fullestNode the number of pods on the fullest
	// of them. zoneSkew is the largest difference between zones in the number of pods of a series.
	nodesUsed, fullestNode, zoneSkew = "nodes used", "most on a node", "zone skew"
)

// values returns the figures of a run.
func (o *outcome) values(s scenario) map[string]float64 {
	if s.gangs {
		return o.gangValues()
	}
	var ends []time.Time
	var latencies []float64
	for _, pod := range o.measured {
		end := pod.Bound
		if end.IsZero() {
			end = pod.Refused
		}
		ends = append(ends, end)
		begin := pod.Created
		if begin.Before(o.started) {
			begin = o.started
		}
		latencies = append(latencies, milliseconds(end.Sub(begin)))
	}
	slices.SortFunc(ends, time.Time.Compare)
	first, last, n := ends[0], ends[len(ends)-1], float64(len(ends))
	values := map[string]float64{
		podsPerSecond: (n - 1) / last.Sub(first).Seconds(),
		firstAfter:    milliseconds(first.Sub(o.started)),
		latency50:     report.Quantile(latencies, 0.5),
		latency99:     report.Quantile(latencies, 0.99),
		apiCPU:        milliseconds(o.api) / n,
	}
	if o.scheduler.PeakRSS > 0 { // the contender has a process of its own
		values[schedulerCPU] = milliseconds(o.scheduler.CPU) / n
		values[schedulerRSS] = float64(o.scheduler.PeakRSS) / (1 << 20)
	}
	if d := o.scheduler.decisions; d.count > 0 {
		values[decisionTime] = d.mean()
	}
	if s.filled {
		values[podsPerSecond] = n / last.Sub(o.started).Seconds()
	}
	if s.settled {
		values[nodesUsed], values[fullestNode] = spread(o.measured)
		values[zoneSkew] = skew(o.measured)
	}
	maps.Copy(values, o.questions)
	return values
}

// spread returns the number of nodes with pods, and the number of pods on the fullest node.
func spread(pods map[string]cluster.Pod) (nodes, fullest float64) {
	on := map[string]int{}
	for _, pod := range pods {
		if pod.Node != "" {
			on[pod.Node]++
		}
	}
	most := 0
	for _, n := range on {
		most = max(most, n)
	}
	return float64(len(on)), float64(most)
}

// skew returns the largest difference, over all series, between the zones with the most and the
// fewest pods of the series.
func skew(pods map[string]cluster.Pod) float64 {
	perZone := map[string]*[workload.Zones]int{} // by series
	for _, pod := range pods {
		zone, ok := workload.ZoneIndex(pod.Node)
		if !ok {
			continue // the pod has no node
		}
		if perZone[pod.Series] == nil {
			perZone[pod.Series] = &[workload.Zones]int{}
		}
		perZone[pod.Series][zone]++
	}
	most := 0
	for _, counts := range perZone {
		most = max(most, slices.Max(counts[:])-slices.Min(counts[:]))
	}
	return float64(most)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

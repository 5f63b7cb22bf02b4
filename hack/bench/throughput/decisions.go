// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package throughput

import (
	"context"
	"errors"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/livesched/livesched/hack/bench/cluster"
)

// decisionSeconds is the histogram of the time of decisions, which livesched and kube-scheduler
// both have. Decisions that found no node are in it, with their preemption.
const decisionSeconds = "scheduler_scheduling_algorithm_duration_seconds"

// decisions are the decisions of a scheduler so far.
type decisions struct {
	count uint64
	// total is the time that they took together.
	total time.Duration
}

func (d decisions) since(before decisions) decisions {
	return decisions{count: d.count - before.count, total: d.total - before.total}
}

// mean returns the mean time in microseconds.
func (d decisions) mean() float64 {
	return float64(d.total) / float64(d.count) / float64(time.Microsecond)
}

// readDecisions reads the decisions of a scheduler so far.
func readDecisions(s *cluster.Scheduler) (decisions, error) {
	families, err := s.Metrics(context.Background())
	if err != nil {
		return decisions{}, err
	}
	return decisionsIn(families)
}

func decisionsIn(families map[string]*dto.MetricFamily) (decisions, error) {
	family := families[decisionSeconds]
	if family.GetType() != dto.MetricType_HISTOGRAM {
		return decisions{}, errors.New("no histogram " + decisionSeconds)
	}
	var d decisions
	for _, metric := range family.GetMetric() {
		h := metric.GetHistogram()
		d.count += h.GetSampleCount()
		d.total += time.Duration(h.GetSampleSum() * float64(time.Second))
	}
	return d, nil
}

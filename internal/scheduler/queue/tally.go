// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"github.com/prometheus/client_golang/prometheus"

	ownmetrics "github.com/livesched/livesched/internal/scheduler/metrics"
)

// Pending is the number of pods of one profile in each queue. Pods in flight are in no queue.
type Pending struct {
	Active, Backoff, Unschedulable, Gated int
}

// PendingByProfile returns the number of waiting pods by scheduler name, for each profile of the
// settings. The time that it takes depends on the number of profiles alone, not on the number of
// pods. While Reconfigure runs, a pod may still be counted where it was before.
func (q *Queue) PendingByProfile() map[string]Pending {
	q.mu.Lock()
	defer q.mu.Unlock()
	pending := make(map[string]Pending, len(q.rules.profiles))
	for name, p := range q.rules.profiles {
		pending[name] = p.pending.pending()
	}
	return pending
}

// tally counts the waiting pods of one scheduler name, for PendingByProfile and for
// livesched_pending_pods. All profileRules of the name share it, also those that were replaced.
// Queue.mu guards it.
type tally struct {
	counts [places]int
	// gauges holds the gauge of each place, nil for places without one. Backoff and ErrorBackoff
	// share a gauge.
	gauges [places]prometheus.Gauge
}

// newTally returns the tally of a scheduler name without pods. It creates the series of the metric,
// so that they are 0 before the first pod.
func newTally(schedulerName string) *tally {
	t := &tally{}
	for place, queue := range map[Place]string{
		Active:        ownmetrics.QueueActive,
		Backoff:       ownmetrics.QueueBackoff,
		ErrorBackoff:  ownmetrics.QueueBackoff,
		Unschedulable: ownmetrics.QueueUnschedulable,
		Gated:         ownmetrics.QueueGated,
	} {
		t.gauges[place] = ownmetrics.PendingPods.WithLabelValues(schedulerName, queue)
	}
	return t
}

// add adds to the number of pods in a place that has a gauge.
func (t *tally) add(to Place, pods int) {
	t.counts[to] += pods
	t.gauges[to].Add(float64(pods))
}

func (t *tally) pending() Pending {
	return Pending{
		Active: t.counts[Active], Backoff: t.counts[Backoff] + t.counts[ErrorBackoff],
		Unschedulable: t.counts[Unschedulable], Gated: t.counts[Gated],
	}
}

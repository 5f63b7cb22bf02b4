// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loadhistory

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"
)

// Points is the largest number of points of a load.
const Points = 361

// Load is the load of all replicas, in columns that have a value for each point in time, NaN where
// there is none.
type Load struct {
	// Step is the time between two points. The first point is at Start.
	Step  time.Duration
	Start time.Time

	// Bound, Unschedulable and Failed are the attempts a second since the point before, by their
	// result.
	Bound, Unschedulable, Failed []float64
	// Active, Backoff, Waiting (the unschedulable ones) and Gated are the most pending pods since
	// the point before, by their place in the queue.
	Active, Backoff, Waiting, Gated []float64
	// Attempt is the 99th percentile of the duration of an attempt that placed a pod, and
	// UntilBound that of the time from when a pod may be tried until it is bound, in seconds.
	Attempt, UntilBound []float64
	// Reloads is how often profiles were swapped since the point before.
	Reloads []float64
}

// Time returns when a point is.
func (l *Load) Time(point int) time.Time { return l.Start.Add(time.Duration(point) * l.Step) }

// query is a query, and the columns that its series fill, by the value of a label. A query without
// a label has one series.
type query struct {
	expression string
	label      model.LabelName
	columns    map[model.LabelValue]*[]float64
}

// selectorOf selects the series of livesched's replicas, as the dashboards for Grafana do.
func selectorOf(namespace string) string {
	if namespace == "" {
		return `job="livesched"`
	}
	return fmt.Sprintf(`job="livesched", namespace=%q`, namespace)
}

// leastRate is the shortest time for a rate, which needs two scrapes.
const leastRate = 5 * time.Minute

// queries returns the queries for a load with a step. A follower has a queue and reloads profiles,
// too: the largest number counts.
func (l *Load) queries(selector string, step time.Duration) []query {
	expand := strings.NewReplacer("SELECTOR", selector, "STEP", model.Duration(step).String(),
		"RATE", model.Duration(max(step, leastRate)).String()).Replace
	return []query{
		{expand(`sum by (result) (rate(scheduler_schedule_attempts_total{SELECTOR}[RATE]))`), "result",
			map[model.LabelValue]*[]float64{
				"scheduled": &l.Bound, "unschedulable": &l.Unschedulable, "error": &l.Failed}},
		{expand(`sum by (queue) (max by (profile, queue) (max_over_time(livesched_pending_pods{SELECTOR}[STEP])))`),
			"queue", map[model.LabelValue]*[]float64{
				"active": &l.Active, "backoff": &l.Backoff, "unschedulable": &l.Waiting, "gated": &l.Gated}},
		{expand(`histogram_quantile(0.99, sum by (le) ` +
			`(rate(scheduler_scheduling_attempt_duration_seconds_bucket{SELECTOR, result="scheduled"}[RATE])))`), "",
			map[model.LabelValue]*[]float64{"": &l.Attempt}},
		{expand(`histogram_quantile(0.99, sum by (le) ` +
			`(rate(scheduler_pod_scheduling_sli_duration_seconds_bucket{SELECTOR}[RATE])))`), "",
			map[model.LabelValue]*[]float64{"": &l.UntilBound}},
		{expand(`max(increase(livesched_reloads_total{SELECTOR, result="success"}[STEP]))`), "",
			map[model.LabelValue]*[]float64{"": &l.Reloads}},
	}
}

// read asks all queries at the same time.
func (c *Client) read(ctx context.Context, last time.Duration) (*Load, error) {
	step := max((last / (Points - 1)).Round(time.Second), time.Second)
	end := time.Now().Truncate(time.Second)
	l := &Load{Step: step, Start: end.Add(-step * (Points - 1))}
	asks, ctx := errgroup.WithContext(ctx)
	for _, q := range l.queries(c.selector, step) {
		for _, column := range q.columns {
			*column = l.column()
		}
		asks.Go(func() error {
			value, _, err := c.api.QueryRange(ctx, q.expression, promv1.Range{Start: l.Start, End: end, Step: step},
				promv1.WithTimeout(answerTimeout))
			if err != nil {
				klog.FromContext(ctx).V(4).Info("A query of Prometheus failed", "err", err)
				return wordsOf(err)
			}
			return l.fill(q, value)
		})
	}
	if err := asks.Wait(); err != nil {
		return nil, err
	}
	if isEmpty(l.Bound) && isEmpty(l.Waiting) {
		return nil, fmt.Errorf("it has no series of livesched with %s in this time", c.selector)
	}
	l.zeroes(&l.Bound, &l.Unschedulable, &l.Failed)
	l.zeroes(&l.Active, &l.Backoff, &l.Waiting, &l.Gated)
	return l, nil
}

func (l *Load) column() []float64 {
	column := make([]float64, Points)
	for i := range column {
		column[i] = math.NaN()
	}
	return column
}

// fill writes the answer to a query into its columns.
func (l *Load) fill(q query, answer model.Value) error {
	matrix, is := answer.(model.Matrix)
	if !is {
		return errors.New("it answered with no range of values")
	}
	for _, series := range matrix {
		column := q.columns[series.Metric[q.label]]
		if column == nil {
			continue // a result that charts do not show
		}
		for _, sample := range series.Values {
			point := int(sample.Timestamp.Time().Sub(l.Start).Round(l.Step) / l.Step)
			if point >= 0 && point < Points && !math.IsInf(float64(sample.Value), 0) {
				(*column)[point] = float64(sample.Value)
			}
		}
	}
	return nil
}

// zeroes writes 0 where one of the columns has a value and another has none: a counter that has not
// counted has no series.
func (*Load) zeroes(columns ...*[]float64) {
	for point := range Points {
		known := false
		for _, column := range columns {
			known = known || !math.IsNaN((*column)[point])
		}
		for _, column := range columns {
			if known && math.IsNaN((*column)[point]) {
				(*column)[point] = 0
			}
		}
	}
}

func isEmpty(column []float64) bool {
	for _, value := range column {
		if !math.IsNaN(value) {
			return false
		}
	}
	return true
}

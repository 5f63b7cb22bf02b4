// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"math"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/loadhistory"
)

// chartPoints is the largest number of points of a chart, about as many as it can show.
const chartPoints = 360

// chart has the columns of all charts: attempts a second, pending pods, and milliseconds.
type chart struct {
	Times         []int64     `json:"t"`
	Bound         values      `json:"bound"`
	Unschedulable values      `json:"unschedulable"`
	Failed        values      `json:"failed"`
	Active        values      `json:"active"`
	Backoff       values      `json:"backoff"`
	Waiting       values      `json:"waiting"`
	Gated         values      `json:"gated"`
	Attempt       values      `json:"attempt"`
	UntilBound    values      `json:"untilBound,omitempty"`
	Marks         []chartMark `json:"marks"`
}

type chartMark struct {
	Time int64 `json:"t"`
	Mark int   `json:"n"`
}

// values is a column. NaN, null in JSON, is a gap in the line.
type values []float64

// MarshalJSON implements json.Marshaler. It rounds to what a chart can show.
func (v values) MarshalJSON() ([]byte, error) {
	text := []byte{'['}
	for i, value := range v {
		if i > 0 {
			text = append(text, ',')
		}
		if math.IsNaN(value) {
			text = append(text, "null"...)
			continue
		}
		text = strconv.AppendFloat(text, math.Round(value*100)/100, 'f', -1, 64)
	}
	return append(text, ']'), nil
}

// chartOf returns the samples as columns. If there are more than chartPoints, each point stands for
// several: the mean of rates, the most pending pods, and the longest duration.
func chartOf(samples []v1alpha1.LoadSample) *chart {
	c := &chart{Times: []int64{}, Marks: []chartMark{}}
	each := max((len(samples)+chartPoints-1)/chartPoints, 1)
	for some := range slices.Chunk(samples, each) {
		c.add(some)
	}
	return c
}

// add adds one point for some samples.
func (c *chart) add(samples []v1alpha1.LoadSample) {
	var sum, most v1alpha1.LoadSample
	longest := math.NaN()
	for i := range samples {
		s := &samples[i]
		sum.Seconds += s.Seconds
		sum.Bound += s.Bound
		sum.Unschedulable += s.Unschedulable
		sum.Failed += s.Failed
		most.Active = max(most.Active, s.Active)
		most.Backoff = max(most.Backoff, s.Backoff)
		most.UnschedulablePods = max(most.UnschedulablePods, s.UnschedulablePods)
		most.Gated = max(most.Gated, s.Gated)
		if s.P99 != nil && !(s.P99.Seconds() <= longest) {
			longest = s.P99.Seconds()
		}
	}
	perSecond := func(n int32) float64 {
		if sum.Seconds <= 0 {
			return 0
		}
		return float64(n) / sum.Seconds
	}
	c.Times = append(c.Times, samples[len(samples)-1].Time.Unix())
	c.Bound = append(c.Bound, perSecond(sum.Bound))
	c.Unschedulable = append(c.Unschedulable, perSecond(sum.Unschedulable))
	c.Failed = append(c.Failed, perSecond(sum.Failed))
	c.Active = append(c.Active, float64(most.Active))
	c.Backoff = append(c.Backoff, float64(most.Backoff))
	c.Waiting = append(c.Waiting, float64(most.UnschedulablePods))
	c.Gated = append(c.Gated, float64(most.Gated))
	c.Attempt = append(c.Attempt, longest*1000)
}

// chartOfDays returns the load of days as columns.
func chartOfDays(l *loadhistory.Load) *chart {
	c := &chart{Times: []int64{}, Bound: l.Bound, Unschedulable: l.Unschedulable, Failed: l.Failed, Active: l.Active,
		Backoff: l.Backoff, Waiting: l.Waiting, Gated: l.Gated, Marks: []chartMark{}}
	for i := range l.Bound {
		c.Times = append(c.Times, l.Time(i).Unix())
		c.Attempt = append(c.Attempt, l.Attempt[i]*1000)
		c.UntilBound = append(c.UntilBound, l.UntilBound[i]*1000)
	}
	return c
}

// reloadsOfDays returns the points in time at which profiles were reloaded.
func reloadsOfDays(l *loadhistory.Load) (rows []reloadRow) {
	for i, increase := range l.Reloads {
		if increase >= 0.5 { // Prometheus extrapolates: the increase is no whole number
			rows = append(rows, reloadRow{
				ProfileReload: v1alpha1.ProfileReload{Time: metav1.NewTime(l.Time(i))},
				Changes:       int(math.Round(increase)), Within: span(l.Step.Round(time.Minute)),
			})
		}
	}
	return rows
}

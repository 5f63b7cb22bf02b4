// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
)

const (
	// chartPoints is the largest number of points of a chart, about as many as it can show.
	chartPoints = 360
	// listedReloads is how many changes of profiles are marked: the latest.
	listedReloads = 20
)

// ranges are the times that charts show, and their names.
var ranges = []timeRange{
	{"15m", "15 min", 15 * time.Minute}, {"1h", "1 h", time.Hour}, {"8h", "8 h", 8 * time.Hour},
}

type timeRange struct {
	Value, Name string
	last        time.Duration
}

// healthView is whether the scheduler is well.
type healthView struct {
	Range     timeRange
	Ranges    []timeRange
	Leading   bool
	Replica   string
	Version   string
	Started   metav1.Time
	Nodes     int32
	Pods      int32
	Decisions float64 // a second, in the last minute
	Bound     float64
	Failed    float64
	P99       *metav1.Duration // the highest of the last minute
	Pending   *v1alpha1.LoadSample
	Reloads   []reloadRow
	Chart     string // JSON of a chart
}

// reloadRow is a change of a profile, with the number of its mark.
type reloadRow struct {
	v1alpha1.ProfileReload
	Mark int
}

// chart has the columns of both charts.
type chart struct {
	Times         []int64     `json:"t"`
	Bound         []float64   `json:"bound"`
	Unschedulable []float64   `json:"unschedulable"`
	Failed        []float64   `json:"failed"`
	Active        []int32     `json:"active"`
	Backoff       []int32     `json:"backoff"`
	Waiting       []int32     `json:"waiting"`
	Gated         []int32     `json:"gated"`
	Marks         []chartMark `json:"marks"`
}

type chartMark struct {
	Time int64 `json:"t"`
	Mark int   `json:"n"`
}

func (h *handler) healthPart(r *http.Request, s Source) answer {
	return answer{part: "health", data: loadHealth(r.Context(), s, r.URL.Query().Get("last"))}
}

// rangeOf returns a range by its value, or else the first one.
func rangeOf(value string) timeRange {
	if i := slices.IndexFunc(ranges, func(r timeRange) bool { return r.Value == value }); i > 0 {
		return ranges[i]
	}
	return ranges[0]
}

// loadHealth returns the state of the replica that answers, and its load.
func loadHealth(ctx context.Context, s Source, last string) part[healthView] {
	v := healthView{Range: rangeOf(last), Ranges: ranges}
	list, err := s.LoadSamples(ctx, v.Range.last)
	if err != nil {
		return partOf(v, err)
	}
	v.Leading, v.Replica, v.Version, v.Started = list.Leading, list.Replica, list.Version, list.Started
	v.Nodes, v.Pods = list.Nodes, list.Pods
	v.lastMinute(list.Items)
	reloads := list.Reloads[max(len(list.Reloads)-listedReloads, 0):]
	for i := range reloads {
		v.Reloads = append(v.Reloads, reloadRow{reloads[i], i + 1})
	}
	content, err := json.Marshal(chartOf(list.Items, v.Reloads))
	v.Chart = string(content)
	return partOf(v, err)
}

// lastMinute sums up the samples of the last minute.
func (v *healthView) lastMinute(samples []v1alpha1.LoadSample) {
	if len(samples) == 0 {
		return
	}
	v.Pending = &samples[len(samples)-1]
	from := v.Pending.Time.Add(-time.Minute)
	var seconds float64
	var decided, bound, failed int32
	for i := len(samples) - 1; i >= 0 && samples[i].Time.After(from); i-- {
		sample := &samples[i]
		seconds += sample.Seconds
		decided += sample.Bound + sample.Unschedulable + sample.Failed
		bound += sample.Bound
		failed += sample.Failed
		if sample.P99 != nil && (v.P99 == nil || sample.P99.Duration > v.P99.Duration) {
			v.P99 = sample.P99
		}
	}
	if seconds > 0 {
		v.Decisions, v.Bound, v.Failed = float64(decided)/seconds, float64(bound)/seconds, float64(failed)/seconds
	}
}

// chartOf returns the samples as columns. If there are more than chartPoints, each point stands for
// several: the mean of rates, and the most pending pods.
func chartOf(samples []v1alpha1.LoadSample, reloads []reloadRow) *chart {
	c := &chart{Times: []int64{}, Marks: []chartMark{}}
	each := max((len(samples)+chartPoints-1)/chartPoints, 1)
	for some := range slices.Chunk(samples, each) {
		c.add(some)
	}
	for i := range reloads {
		c.Marks = append(c.Marks, chartMark{reloads[i].Time.Unix(), reloads[i].Mark})
	}
	return c
}

// add adds one point for some samples.
func (c *chart) add(samples []v1alpha1.LoadSample) {
	var sum, most v1alpha1.LoadSample
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
	}
	perSecond := func(n int32) float64 {
		if sum.Seconds <= 0 {
			return 0
		}
		return float64(int64(float64(n)/sum.Seconds*100+0.5)) / 100
	}
	c.Times = append(c.Times, samples[len(samples)-1].Time.Unix())
	c.Bound = append(c.Bound, perSecond(sum.Bound))
	c.Unschedulable = append(c.Unschedulable, perSecond(sum.Unschedulable))
	c.Failed = append(c.Failed, perSecond(sum.Failed))
	c.Active = append(c.Active, most.Active)
	c.Backoff = append(c.Backoff, most.Backoff)
	c.Waiting = append(c.Waiting, most.UnschedulablePods)
	c.Gated = append(c.Gated, most.Gated)
}

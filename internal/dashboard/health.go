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
	"github.com/livesched/livesched/internal/loadhistory"
)

const (
	// kept is how long a replica keeps its own load.
	kept = 8 * time.Hour
	// listedReloads is how many changes of profiles are marked: the latest.
	listedReloads = 20
)

// ranges are the times that charts show, and their names. Those that are longer than kept need a
// History.
var ranges = []timeRange{
	{"15m", "15 min", 15 * time.Minute}, {"1h", "1 h", time.Hour}, {"8h", "8 h", kept},
	{"1d", "1 day", 24 * time.Hour}, {"7d", "7 days", 7 * 24 * time.Hour}, {"30d", "30 days", 30 * 24 * time.Hour},
}

// ownRanges is the number of ranges that need no History.
const ownRanges = 3

type timeRange struct {
	Value, Name string
	last        time.Duration
}

// History has the load of all replicas over days; loadhistory.Client is one. Any goroutine may call
// it.
type History interface {
	// Load returns the load in a time until now. The error says why there is none.
	Load(ctx context.Context, last time.Duration) (*loadhistory.Load, error)
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
	// Days is true if charts and reloads are those of a History. NoHistory says why they are not,
	// although the range needs it.
	Days      bool
	NoHistory string
	Shown     string // name of the range that is shown
	Reloads   []reloadRow
	Chart     string // JSON of a chart
}

// reloadRow is a change of a profile, with the number of its mark. From a History, it is a number
// of changes in the time before, of any profiles.
type reloadRow struct {
	v1alpha1.ProfileReload
	Mark    int
	Changes int
	Within  string
}

func (h *handler) healthPart(r *http.Request, s Source) answer {
	return answer{part: "health", data: h.loadHealth(r.Context(), s, r.URL.Query().Get("last"))}
}

// rangeOf returns the range of a value, or else the first one.
func rangeOf(ranges []timeRange, value string) timeRange {
	if i := slices.IndexFunc(ranges, func(r timeRange) bool { return r.Value == value }); i > 0 {
		return ranges[i]
	}
	return ranges[0]
}

// loadHealth returns the state of the replica that answers, and its load or, for longer times, that
// of all replicas. Who may see the one may see the other.
func (h *handler) loadHealth(ctx context.Context, s Source, last string) part[healthView] {
	v := healthView{Ranges: ranges}
	if h.history == nil {
		v.Ranges = ranges[:ownRanges]
	}
	v.Range = rangeOf(v.Ranges, last)
	v.Shown = v.Range.Name
	list, err := s.LoadSamples(ctx, min(v.Range.last, kept))
	if err != nil {
		return partOf(v, err)
	}
	v.Leading, v.Replica, v.Version, v.Started = list.Leading, list.Replica, list.Version, list.Started
	v.Nodes, v.Pods = list.Nodes, list.Pods
	v.lastMinute(list.Items)
	var c *chart
	if v.Range.last > kept {
		load, err := h.history.Load(ctx, v.Range.last)
		if err == nil {
			v.Days, v.Reloads = true, reloadsOfDays(load)
			c = chartOfDays(load)
		} else {
			v.NoHistory, v.Shown = err.Error(), ranges[ownRanges-1].Name
		}
	}
	if c == nil {
		for i := range list.Reloads {
			v.Reloads = append(v.Reloads, reloadRow{ProfileReload: list.Reloads[i]})
		}
		c = chartOf(list.Items)
	}
	v.Reloads = v.Reloads[max(len(v.Reloads)-listedReloads, 0):]
	for i := range v.Reloads {
		v.Reloads[i].Mark = i + 1
		c.Marks = append(c.Marks, chartMark{v.Reloads[i].Time.Unix(), i + 1})
	}
	content, err := json.Marshal(c)
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

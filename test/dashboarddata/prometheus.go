// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboarddata

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
)

// Prometheus answers range queries about a livesched as Prometheus does: the load has a wave each
// day, and a profile is reloaded once in two days.
type Prometheus struct {
	// Status is sent instead of an answer if it is set.
	Status atomic.Int32
	// Asked is the number of queries.
	Asked atomic.Int32
	// Empty leaves all series out.
	Empty bool
	// Token is the bearer token that is required, if it is set.
	Token string
}

// day is one in seconds.
const day = 24 * 60 * 60

// The values of series at a time in seconds since 1970, by the metric and the value of its label.
var seriesOf = []struct {
	metric, label string
	values        map[string]func(at int64) float64
}{
	{"scheduler_schedule_attempts_total", "result", map[string]func(int64) float64{
		"scheduled":     func(at int64) float64 { return 20 + 80*wave(at) },
		"unschedulable": func(at int64) float64 { return 8 * wave(at+day/4) },
	}},
	{"livesched_pending_pods", "queue", map[string]func(int64) float64{
		"active":        func(at int64) float64 { return 12 * wave(at) },
		"backoff":       func(at int64) float64 { return 30 * wave(at) },
		"unschedulable": func(at int64) float64 { return 280 - 100*wave(at) },
		"gated":         func(int64) float64 { return 3 },
	}},
	{"scheduler_scheduling_attempt_duration_seconds_bucket", "",
		map[string]func(int64) float64{"": func(at int64) float64 { return 0.009 + 0.02*wave(at) }}},
	{"scheduler_pod_scheduling_sli_duration_seconds_bucket", "",
		map[string]func(int64) float64{"": func(at int64) float64 { return 0.08 + 0.3*wave(at) }}},
	{"livesched_reloads_total", "", map[string]func(int64) float64{"": nil}},
}

// wave goes from 0 to 1 and back in a day.
func wave(at int64) float64 {
	hour := float64(at%day) / 3600
	return 1 - max(hour-12, 12-hour)/12
}

// ServeHTTP implements http.Handler.
func (p *Prometheus) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.Asked.Add(1)
	w.Header().Set("Content-Type", "application/json")
	switch status := int(p.Status.Load()); {
	case p.Token != "" && r.Header.Get("Authorization") != "Bearer "+p.Token:
		http.Error(w, "no token", http.StatusUnauthorized)
		return
	case status == http.StatusBadRequest:
		w.WriteHeader(status)
		fmt.Fprint(w, `{"status":"error","errorType":"bad_data","error":"exceeded maximum resolution"}`)
		return
	case status != 0:
		http.Error(w, "broken", status)
		return
	case r.URL.Path != "/api/v1/query_range":
		http.NotFound(w, r)
		return
	}
	start, _ := strconv.ParseFloat(r.FormValue("start"), 64) // one that is wrong gets no values
	end, _ := strconv.ParseFloat(r.FormValue("end"), 64)
	step, _ := strconv.ParseFloat(r.FormValue("step"), 64)
	result := []any{}
	for _, metric := range seriesOf {
		if p.Empty || !strings.Contains(r.FormValue("query"), metric.metric+"{") {
			continue
		}
		for label, value := range metric.values {
			labels := map[string]string{}
			if metric.label != "" {
				labels[metric.label] = label
			}
			result = append(result, map[string]any{"metric": labels, "values": samples(start, end, step, value)})
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", // a client that is gone needs no answer
		"data": map[string]any{"resultType": "matrix", "result": result}})
}

// samples returns the values at each step. Without a function, they count the reloads since the
// step before.
func samples(start, end, step float64, value func(at int64) float64) [][]any {
	list := [][]any{}
	for at := start; step > 0 && at <= end; at += step {
		v := 0.0
		switch {
		case value != nil:
			v = value(int64(at))
		case int64(at)/(2*day) != int64(at-step)/(2*day):
			v = 1
		}
		list = append(list, []any{at, strconv.FormatFloat(v, 'g', -1, 64)})
	}
	return list
}

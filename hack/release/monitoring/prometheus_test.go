// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
	"sigs.k8s.io/yaml"
)

const rulesFile = "../../../config/prometheus/prometheusrule.yaml"

// step is the time between samples, and between evaluations.
const step = time.Minute

var promQL = parser.NewParser(parser.Options{})

// readRules returns the rules of a PrometheusRule by name, checked as Prometheus checks them when
// it loads them.
func readRules(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	content, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	var object struct {
		Spec any `json:"spec"`
	}
	if err := yaml.Unmarshal(content, &object); err != nil {
		t.Fatal(err)
	}
	spec, err := yaml.Marshal(object.Spec)
	if err != nil {
		t.Fatal(err)
	}
	groups, errs := rulefmt.Parse(spec, false, model.UTF8Validation, promQL, slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Error(err)
	}
	if t.Failed() {
		t.FailNow()
	}
	rules := map[string]rulefmt.Rule{}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			if _, twice := rules[rule.Alert]; twice {
				t.Errorf("%s is defined twice", rule.Alert)
			}
			rules[rule.Alert] = rule
		}
	}
	return rules
}

// firing evaluates an alert every step from the first sample of the given series on, as Prometheus
// does, and returns the alerts that fire at the end.
func firing(t *testing.T, rule rulefmt.Rule, series []string, end time.Duration) promql.Vector {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 100000, Timeout: time.Minute, Parser: promQL})
	start := time.Unix(0, 0)
	query, err := engine.NewRangeQuery(t.Context(), loaded(t, series), nil, rule.Expr, start, start.Add(end), step)
	if err != nil {
		t.Fatal(err)
	}
	defer query.Close()
	matrix, err := query.Exec(t.Context()).Matrix()
	if err != nil {
		t.Fatal(err)
	}
	var alerts promql.Vector
	for _, one := range matrix {
		last := len(one.Floats) - 1
		if time.Duration(one.Floats[last].T)*time.Millisecond != end {
			continue
		}
		// The alert has been active for all samples without a gap before the last one.
		first := last
		for first > 0 && one.Floats[first].T-one.Floats[first-1].T == step.Milliseconds() {
			first--
		}
		if active := time.Duration(one.Floats[last].T-one.Floats[first].T) * time.Millisecond; active >=
			time.Duration(rule.For) {
			alerts = append(alerts, promql.Sample{T: one.Floats[last].T, F: one.Floats[last].F, Metric: one.Metric})
		}
	}
	return alerts
}

// loaded is a storage with series in the notation of promtool: `metric{label="value"} 0+1x10` has a
// sample every step.
func loaded(t *testing.T, descriptions []string) storage.Queryable {
	t.Helper()
	var all []storage.Series
	for _, description := range descriptions {
		metric, values, err := promQL.ParseSeriesDesc(description)
		if err != nil {
			t.Fatalf("%s: %v", description, err)
		}
		var samples []chunks.Sample
		for i, value := range values {
			if !value.Omitted {
				samples = append(samples, sample{time: int64(i) * step.Milliseconds(), value: value.Value})
			}
		}
		all = append(all, storage.NewListSeries(metric, samples))
	}
	return queryable(all)
}

func queryable(all []storage.Series) storage.Queryable {
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{
		SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
			found := &seriesSet{at: -1}
			for _, series := range all {
				if matches(series.Labels(), matchers) {
					found.series = append(found.series, series)
				}
			}
			return found
		},
	}}
}

func matches(metric labels.Labels, matchers []*labels.Matcher) bool {
	for _, matcher := range matchers {
		if !matcher.Matches(metric.Get(matcher.Name)) {
			return false
		}
	}
	return true
}

// seriesSet is a storage.SeriesSet of a list.
type seriesSet struct {
	series []storage.Series
	at     int
}

func (s *seriesSet) Next() bool                      { s.at++; return s.at < len(s.series) }
func (s *seriesSet) At() storage.Series              { return s.series[s.at] }
func (*seriesSet) Err() error                        { return nil }
func (*seriesSet) Warnings() annotations.Annotations { return nil }

// sample is a chunks.Sample with a number; it has no histogram.
type sample struct {
	chunks.Sample

	time  int64
	value float64
}

func (s sample) T() int64               { return s.time }
func (s sample) F() float64             { return s.value }
func (sample) ST() int64                { return 0 }
func (sample) Type() chunkenc.ValueType { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample    { return s }

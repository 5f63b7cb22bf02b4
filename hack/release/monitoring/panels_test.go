// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunks"
)

// scrapes are what a livesched served, one after the other: the series that dashboards show. The
// suite of cmd/livesched/app checks that livesched still serves them, and writes them anew with
// -update.
var scrapes = []string{"testdata/scrape-1.txt", "testdata/scrape-2.txt"}

// withoutData are panels that show nothing as long as all is well.
var withoutData = map[string]bool{"Errors": true, "Panics of event handlers": true}

// TestPanelsShowData runs the query of each panel over the scrapes, as Prometheus does for Grafana.
func TestPanelsShowData(t *testing.T) {
	scraped := readScrapes(t)
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 100000, Timeout: time.Minute, Parser: promQL})
	now := time.Unix(0, 0).Add(step * time.Duration(len(scrapes)-1))
	found := map[string]bool{}
	for _, d := range dashboards {
		for _, p := range d.panels {
			for _, q := range p.queries {
				query, err := engine.NewInstantQuery(t.Context(), scraped, nil, chosen(q.expr), now)
				if err != nil {
					t.Fatal(err)
				}
				vector, err := query.Exec(t.Context()).Vector()
				if err != nil {
					t.Fatalf("%s, %s: %v", d.file, p.title, err)
				}
				if withoutData[p.title] {
					found[p.title] = true
					if len(vector) > 0 {
						t.Errorf("%s, %s: has data: %v", d.file, p.title, vector)
					}
					continue
				}
				checkShown(t, d.file+", "+p.title, q, vector)
				query.Close()
			}
		}
	}
	if len(found) != len(withoutData) {
		t.Errorf("of the panels %v there are only %v", withoutData, found)
	}
}

// checkShown checks that a query has results, that each has a value, and that some have the labels
// of the legend: a decision on the fast path has no reason, for example.
func checkShown(t *testing.T, panel string, q query, vector promql.Vector) {
	t.Helper()
	if len(vector) == 0 {
		t.Errorf("%s: no data for %s", panel, q.expr)
	}
	for _, s := range vector {
		if math.IsNaN(s.F) {
			t.Errorf("%s: no value for %s of %s", panel, s.Metric, q.expr)
		}
	}
	for _, match := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(q.legend, -1) {
		if !slices.ContainsFunc(vector, func(s promql.Sample) bool { return s.Metric.Get(match[1]) != "" }) {
			t.Errorf("%s: no result of %s has the label %s of the legend", panel, q.expr, match[1])
		}
	}
}

// readScrapes reads the scrapes with the parser of Prometheus, one for each step, and adds the
// labels of a target.
func readScrapes(t *testing.T) storage.Queryable {
	t.Helper()
	samples := map[string][]chunks.Sample{}
	metrics := map[string]labels.Labels{}
	for i, file := range scrapes {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parser := textparse.NewPromParser(content, labels.NewSymbolTable(), false)
		for {
			entry, err := parser.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if entry != textparse.EntrySeries {
				continue
			}
			var metric labels.Labels
			parser.Labels(&metric)
			_, _, value := parser.Series()
			target := labels.NewBuilder(metric)
			target.Set("job", "livesched").Set("namespace", "livesched-system").Set("pod", "livesched-0").
				Set("instance", "10.0.0.1:10259")
			key := target.Labels().String()
			metrics[key] = target.Labels()
			samples[key] = append(samples[key], sample{time: int64(i) * step.Milliseconds(), value: value})
		}
	}
	var all []storage.Series
	for key, metric := range metrics {
		all = append(all, storage.NewListSeries(metric, samples[key]))
	}
	return queryable(all)
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
)

// queriesFile has the queries of livesched's own dashboard, one a line. A test of that package
// compares it with the code.
const queriesFile = "../../../internal/loadhistory/testdata/queries.txt"

// TestQueriesOfTheOwnDashboardShowData runs each query over the scrapes, as Prometheus does.
func TestQueriesOfTheOwnDashboardShowData(t *testing.T) {
	content, err := os.ReadFile(queriesFile)
	if err != nil {
		t.Fatal(err)
	}
	metrics, scraped := readServed(t), readScrapes(t)
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 100000, Timeout: time.Minute, Parser: promQL})
	start := time.Unix(0, 0)
	end := start.Add(step * time.Duration(len(scrapes)-1))
	queries := strings.Split(strings.TrimSpace(string(content)), "\n")
	if len(queries) < 5 {
		t.Fatalf("%d queries only", len(queries))
	}
	for _, expression := range queries {
		for _, problem := range metrics.problems(expression) {
			t.Errorf("%s: %s", expression, problem)
		}
		query, err := engine.NewRangeQuery(t.Context(), scraped, nil, expression, start, end, step)
		if err != nil {
			t.Fatal(err)
		}
		matrix, err := query.Exec(t.Context()).Matrix()
		if err != nil {
			t.Fatalf("%s: %v", expression, err)
		}
		if len(matrix) == 0 {
			t.Errorf("no data for %s", expression)
		}
		for _, series := range matrix {
			if last := series.Floats[len(series.Floats)-1]; math.IsNaN(last.F) {
				t.Errorf("no value for %s of %s", series.Metric, expression)
			}
		}
		query.Close()
	}
}

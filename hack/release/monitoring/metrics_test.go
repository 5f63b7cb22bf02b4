// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// servedFile lists the metrics that livesched serves: "name label label=value|value ...". A test of
// that package compares it with what is registered.
const servedFile = "../../../internal/scheduler/metrics/testdata/served.txt"

// targetLabels are those that Prometheus adds to every series.
var targetLabels = []string{"job", "namespace", "pod", "instance"}

// served are the labels of the metrics, with their values if all are known.
type served map[string]map[string][]string

func readServed(t *testing.T) served {
	t.Helper()
	content, err := os.ReadFile(servedFile)
	if err != nil {
		t.Fatal(err)
	}
	metrics := served{"up": {}} // made by Prometheus
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		metrics[fields[0]] = map[string][]string{}
		for _, field := range fields[1:] {
			label, values, known := strings.Cut(field, "=")
			metrics[fields[0]][label] = nil
			if known {
				metrics[fields[0]][label] = strings.Split(values, "|")
			}
		}
	}
	return metrics
}

// problems are the metrics and labels of an expression that do not exist.
func (s served) problems(expression string) []string {
	parsed, err := promQL.ParseExpr(expression)
	if err != nil {
		return []string{err.Error()}
	}
	var found []string
	labelsOf := map[string][]string{}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		metric, exists := s.metric(selector.Name)
		if !exists {
			found = append(found, "no metric "+selector.Name)
			return nil
		}
		if !slices.ContainsFunc(selector.LabelMatchers, func(m *labels.Matcher) bool { return m.Name == "job" }) {
			found = append(found, selector.Name+" without the job")
		}
		for _, matcher := range selector.LabelMatchers {
			found = append(found, matcherProblems(selector.Name, metric, matcher)...)
		}
		for label, values := range metric {
			labelsOf[label] = values
		}
		return nil
	})
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		var names []string
		switch node := node.(type) {
		case *parser.AggregateExpr:
			names = node.Grouping
		case *parser.BinaryExpr:
			if node.VectorMatching != nil {
				names = slices.Concat(node.VectorMatching.MatchingLabels, node.VectorMatching.Include)
			}
		}
		for _, name := range names {
			if _, exists := labelsOf[name]; !exists && !slices.Contains(targetLabels, name) {
				found = append(found, "no metric of the expression has the label "+name)
			}
		}
		return nil
	})
	return found
}

// metric returns the labels of a metric. A histogram has several names, and its buckets have one
// label more.
func (s served) metric(name string) (map[string][]string, bool) {
	if metric, exists := s[name]; exists {
		return metric, true
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		metric, exists := s[strings.TrimSuffix(name, suffix)]
		if !exists || !strings.HasSuffix(name, suffix) {
			continue
		}
		if suffix == "_bucket" {
			buckets := map[string][]string{"le": nil}
			for label, values := range metric {
				buckets[label] = values
			}
			return buckets, true
		}
		return metric, true
	}
	return nil, false
}

func matcherProblems(name string, metric map[string][]string, matcher *labels.Matcher) []string {
	if matcher.Name == model.MetricNameLabel || slices.Contains(targetLabels, matcher.Name) {
		return nil
	}
	values, exists := metric[matcher.Name]
	if !exists {
		return []string{fmt.Sprintf("%s has no label %s", name, matcher.Name)}
	}
	// Without values that match, the expression is empty forever.
	if len(values) > 0 && !slices.ContainsFunc(values, matcher.Matches) {
		return []string{fmt.Sprintf("%s matches none of %v", matcher, values)}
	}
	return nil
}

func TestAlertsUseMetricsThatExist(t *testing.T) {
	served := readServed(t)
	for alert, rule := range readRules(t) {
		for _, problem := range served.problems(rule.Expr) {
			t.Errorf("%s: %s", alert, problem)
		}
	}
}

func TestWrongMetricsAndLabelsAreFound(t *testing.T) {
	served := served{"c_total": {"result": {"error", "success"}, "profile": nil}, "d_seconds": {"profile": nil}}
	for expression, want := range map[string]string{
		`rate(c_total{job="x",result="error"}[5m])`:        "",
		`sum by (namespace, profile) (c_total{job="x"})`:   "",
		`sum by (le, profile) (d_seconds_bucket{job="x"})`: "",
		`c_total{job="x",result="failure"}`:                `result="failure" matches none of [error success]`,
		`c_total{job="x",result=~"fail.*|none"}`: `result=~"fail.*|none" matches none of [error ` +
			`success]`,
		`c_total{job="x",kind="a"}`:                                "c_total has no label kind",
		`c_total`:                                                  "c_total without the job",
		`sum(e_total{job="x"})`:                                    "no metric e_total",
		`sum by (kind) (c_total{job="x"})`:                         "no metric of the expression has the label kind",
		`sum by (le) (d_seconds_count{job="x"})`:                   "no metric of the expression has the label le",
		`c_total{job="x"} * on (kind) group_left c_total{job="x"}`: "no metric of the expression has the label kind",
		`sum(`: "1:5: parse error: unclosed left parenthesis",
	} {
		got := strings.Join(served.problems(expression), "\n")
		if got != want {
			t.Errorf("%s: %q, want %q", expression, got, want)
		}
	}
}

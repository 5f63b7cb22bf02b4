// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

func TestDashboardsAreUpToDate(t *testing.T) {
	for _, d := range dashboards {
		want, err := d.encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(grafana, d.file))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is out of date: go run -C hack/release/monitoring .", d.file)
		}
	}
	files, err := filepath.Glob(filepath.Join(grafana, "*.json"))
	if err != nil || len(files) != len(dashboards) {
		t.Errorf("%v, %v: want %d dashboards", files, err, len(dashboards))
	}
}

func TestDashboardsUseMetricsThatExist(t *testing.T) {
	served := readServed(t)
	for _, d := range dashboards {
		for _, p := range d.panels {
			for _, q := range p.queries {
				for _, problem := range served.problems(chosen(q.expr)) {
					t.Errorf("%s, %s: %s", d.file, p.title, problem)
				}
				for _, problem := range legendProblems(t, q) {
					t.Errorf("%s, %s: %s", d.file, p.title, problem)
				}
			}
		}
	}
}

func TestVariablesOfDashboardsUseMetricsThatExist(t *testing.T) {
	served := readServed(t)
	pattern := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
	for _, v := range variables() {
		if v["type"] != "query" {
			continue
		}
		match := pattern.FindStringSubmatch(v["query"].(string))
		if match == nil {
			t.Errorf("%v: query %v", v["name"], v["query"])
			continue
		}
		for _, problem := range served.problems("sum by (" + match[2] + ") (" + match[1] + ")") {
			t.Errorf("%v: %s", v["name"], problem)
		}
	}
}

func TestPanelsHaveTheirTextsAndPlaces(t *testing.T) {
	for _, d := range dashboards {
		titles := map[string]bool{}
		for i, p := range d.panels {
			if titles[p.title] || !strings.HasSuffix(p.description, ".") || p.unit == "" {
				t.Errorf("%s, %s: the title is used twice, the description is no sentence, or the unit is missing",
					d.file, p.title)
			}
			titles[p.title] = true
			if place := p.encode(i)["gridPos"].(object); place["x"].(int)+place["w"].(int) > gridColumns {
				t.Errorf("%s, %s: %v is beyond the grid", d.file, p.title, place)
			}
		}
	}
}

// chosen is an expression with what Grafana puts in place of its variables.
func chosen(expression string) string {
	return strings.NewReplacer("$__rate_interval", "5m", "$namespace", "livesched-system", "$profile", "mine|extended").
		Replace(expression)
}

// legendProblems are the labels of a legend that the result of its query does not have. All queries
// aggregate.
func legendProblems(t *testing.T, q query) (problems []string) {
	t.Helper()
	parsed, err := promQL.ParseExpr(chosen(q.expr))
	if err != nil {
		t.Fatal(err)
	}
	var labels []string
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if aggregate, ok := node.(*parser.AggregateExpr); ok && len(labels) == 0 {
			labels = aggregate.Grouping // the outermost that groups
		}
		return nil
	})
	for _, match := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(q.legend, -1) {
		if !slices.Contains(labels, match[1]) {
			problems = append(problems, "the legend has the label "+match[1]+", and the result has "+
				strings.Join(labels, ", "))
		}
	}
	for _, label := range labels {
		if label != "le" && !strings.Contains(q.legend, "{{"+label+"}}") {
			problems = append(problems, "the legend lacks the label "+label)
		}
	}
	return problems
}

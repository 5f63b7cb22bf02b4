// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/print"
	"github.com/livesched/livesched/internal/suggest"
)

// failOnPattern is the form of --fail-on: a metric, an operator, and a number or the word current.
var failOnPattern = regexp.MustCompile(`^\s*([\w./-]+?)\s*(>=|<=|!=|==?|>|<)\s*(current|-?\d+(?:\.\d+)?)\s*$`)

// condition is a condition under which a simulation fails.
type condition struct{ text, metric, operator, value string }

func parseConditions(texts []string) ([]condition, error) {
	var conditions []condition
	for _, text := range texts {
		parts := failOnPattern.FindStringSubmatch(text)
		if parts == nil {
			return nil, fmt.Errorf("--fail-on: must be a metric, an operator (>, >=, <, <=, =, !=), and a number or "+
				"the word current, not %q", text)
		}
		c := condition{text: text, metric: parts[1], operator: parts[2], value: parts[3]}
		if err := checkMetric(c.metric); err != nil {
			return nil, err
		}
		conditions = append(conditions, c)
	}
	return conditions, nil
}

// checkMetric returns an error if a simulation has no such metric. The resources are not known
// before it has been made: see checkResources.
func checkMetric(metric string) error {
	if _, isResource := print.CutStatistic(metric); isResource || print.Counts[metric] != nil {
		return nil
	}
	known := slices.Sorted(maps.Keys(print.Counts))
	candidates := slices.Clone(known)
	if dot := strings.LastIndexByte(metric, '.'); dot > 0 {
		candidates = nil
		for _, statistic := range print.Statistics {
			candidates = append(candidates, metric[:dot+1]+statistic)
		}
	}
	return fmt.Errorf("--fail-on: unknown metric %q%s The metrics are %s, and of each resource RESOURCE.%s",
		metric, questionOrStop(suggest.DidYouMean(metric, candidates)), strings.Join(known, ", "),
		strings.Join(print.Statistics, " and RESOURCE."))
}

// checkResources returns an error if a condition is about a resource that no column of the table
// has: it would never hold, or always.
func checkResources(conditions []condition, s *v1alpha1.SimulationStatus) error {
	resources := print.ResourcesOf(print.OutcomesOf(s))
	var errs []error
	for i := range conditions {
		resource, isResource := print.CutStatistic(conditions[i].metric)
		if !isResource || slices.Contains(resources, resource) {
			continue
		}
		has := "no node has a resource"
		if len(resources) > 0 {
			has = "The resources of the nodes are " + strings.Join(resources, ", ")
		}
		errs = append(errs, fmt.Errorf("--fail-on %q: unknown resource %q%s %s", conditions[i].text, resource,
			questionOrStop(suggest.DidYouMean(resource, resources)), has))
	}
	return errors.Join(errs...)
}

// questionOrStop ends a part of an error message: with its question, or with a full stop.
func questionOrStop(question string) string {
	if question == "" {
		return "."
	}
	return question
}

// holds reports whether the condition holds, and the value that it is about.
func (c *condition) holds(s *v1alpha1.SimulationStatus) (value float64, holds bool) {
	value = print.Value(c.metric, print.LastOutcome(s))
	limit, err := strconv.ParseFloat(c.value, 64)
	if err != nil { // the word current
		limit = print.Value(c.metric, &s.Current)
	}
	switch c.operator {
	case ">":
		holds = value > limit
	case ">=":
		holds = value >= limit
	case "<":
		holds = value < limit
	case "<=":
		holds = value <= limit
	case "!=":
		holds = value != limit
	default:
		holds = value == limit
	}
	return value, holds
}

// fail reports the conditions that hold. A condition that cannot be evaluated is an error: what it
// guards must not pass because of a typing error.
func (o *simulateOptions) fail(conditions []condition, s *v1alpha1.SimulationStatus) error {
	if len(conditions) == 0 {
		return nil
	}
	if err := checkResources(conditions, s); err != nil {
		return err
	}
	if s.Pods == 0 {
		return o.failOnNothing()
	}
	var err error
	for i := range conditions {
		c := &conditions[i]
		if value, holds := c.holds(s); holds {
			_, _ = fmt.Fprintf(o.ErrOut, "--fail-on %q holds: %s is %v\n", c.text, c.metric, value)
			err = errFound
		}
	}
	return err
}

// failOnNothing returns an error if pods were selected by a name or labels, and there are none: a
// guard with a mistyped namespace would always pass. That no pod is pending is good news.
func (o *simulateOptions) failOnNothing() error {
	if o.pods == "pending" || o.namespace == "" && o.selector == "" {
		return nil
	}
	return errors.New(
		"--fail-on: no pod was decided, so there is nothing to check: see --namespace, --selector and --pods")
}

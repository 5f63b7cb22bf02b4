// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/livesched/livesched/api/v1alpha1"
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
			return nil, fmt.Errorf("--fail-on: must be a metric, an operator (>, >=, <, <=, =, !=), and a number or the word current, not %q", text)
		}
		c := condition{text: text, metric: parts[1], operator: parts[2], value: parts[3]}
		if _, isResource := cutStatistic(c.metric); !isResource && metrics[c.metric] == nil {
			return nil, fmt.Errorf("--fail-on: unknown metric %q: must be unplaced, nodesUsed, zoneSkewMax, preemptions, victims, moved, RESOURCE.mean or RESOURCE.stddev", c.metric)
		}
		conditions = append(conditions, c)
	}
	return conditions, nil
}

// metrics are the metrics of an outcome that have no resource.
var metrics = map[string]func(*v1alpha1.SimulationOutcome) int32{
	"unplaced":    func(o *v1alpha1.SimulationOutcome) int32 { return o.Unplaced },
	"nodesUsed":   func(o *v1alpha1.SimulationOutcome) int32 { return o.NodesUsed },
	"zoneSkewMax": func(o *v1alpha1.SimulationOutcome) int32 { return o.ZoneSkewMax },
	"preemptions": func(o *v1alpha1.SimulationOutcome) int32 { return o.Preemptions },
	"victims":     func(o *v1alpha1.SimulationOutcome) int32 { return o.Victims },
	"moved":       func(o *v1alpha1.SimulationOutcome) int32 { return o.Moved },
}

// cutStatistic returns the resource of a metric such as cpu.mean.
func cutStatistic(metric string) (resource string, ok bool) {
	for _, statistic := range []string{".mean", ".stddev"} {
		if resource, ok := strings.CutSuffix(metric, statistic); ok {
			return resource, true
		}
	}
	return "", false
}

// of returns the value of the metric in an outcome. Statistics of resources are in percent, as they
// are printed. A resource that no node has is not used.
func (c *condition) of(o *v1alpha1.SimulationOutcome) float64 {
	resource, isResource := cutStatistic(c.metric)
	if !isResource {
		return float64(metrics[c.metric](o))
	}
	for _, u := range o.Utilization {
		if u.Resource == resource && strings.HasSuffix(c.metric, ".mean") {
			return float64(u.MeanPermille) / 10
		}
		if u.Resource == resource {
			return float64(u.StddevPermille) / 10
		}
	}
	return 0
}

// holds reports whether the condition holds, and the value that it is about.
func (c *condition) holds(s *v1alpha1.SimulationStatus) (value float64, holds bool) {
	value = c.of(lastOutcome(s))
	limit, err := strconv.ParseFloat(c.value, 64)
	if err != nil { // the word current
		limit = c.of(&s.Current)
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

// lastOutcome returns the last column.
func lastOutcome(s *v1alpha1.SimulationStatus) *v1alpha1.SimulationOutcome {
	if s.New != nil {
		return s.New
	}
	return &s.Current
}

// fail reports the conditions that hold.
func (o *simulateOptions) fail(conditions []condition, s *v1alpha1.SimulationStatus) (err error) {
	for i := range conditions {
		c := &conditions[i]
		if value, holds := c.holds(s); holds {
			_, _ = fmt.Fprintf(o.ErrOut, "--fail-on %q holds: %s is %v\n", c.text, c.metric, value)
			err = errFound
		}
	}
	return err
}

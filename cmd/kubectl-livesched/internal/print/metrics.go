// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package print

import (
	"cmp"
	"slices"
	"strings"

	"github.com/livesched/livesched/api/v1alpha1"
)

// Counts are the metrics of an outcome that have no resource.
var Counts = map[string]func(*v1alpha1.SimulationOutcome) int32{
	"unplaced":    func(o *v1alpha1.SimulationOutcome) int32 { return o.Unplaced },
	"nodesUsed":   func(o *v1alpha1.SimulationOutcome) int32 { return o.NodesUsed },
	"zoneSkewMax": func(o *v1alpha1.SimulationOutcome) int32 { return o.ZoneSkewMax },
	"preemptions": func(o *v1alpha1.SimulationOutcome) int32 { return o.Preemptions },
	"victims":     func(o *v1alpha1.SimulationOutcome) int32 { return o.Victims },
	"moved":       func(o *v1alpha1.SimulationOutcome) int32 { return o.Moved },
}

// Statistics are the statistics of a resource.
var Statistics = []string{"mean", "stddev"}

// CutStatistic returns the resource of a metric such as cpu.mean.
func CutStatistic(metric string) (resource string, ok bool) {
	for _, statistic := range Statistics {
		if resource, ok := strings.CutSuffix(metric, "."+statistic); ok {
			return resource, true
		}
	}
	return "", false
}

// Value returns the value of a metric in an outcome. Statistics of resources are in percent, as
// they are printed. A resource that no node of the outcome has is not used.
func Value(metric string, o *v1alpha1.SimulationOutcome) float64 {
	resource, isResource := CutStatistic(metric)
	if !isResource {
		return float64(Counts[metric](o))
	}
	for _, u := range o.Utilization {
		if u.Resource == resource && strings.HasSuffix(metric, ".mean") {
			return float64(u.MeanPermille) / 10
		}
		if u.Resource == resource {
			return float64(u.StddevPermille) / 10
		}
	}
	return 0
}

// LastOutcome returns the last column.
func LastOutcome(s *v1alpha1.SimulationStatus) *v1alpha1.SimulationOutcome {
	return cmp.Or(s.New, &s.Current)
}

// OutcomesOf returns the columns.
func OutcomesOf(s *v1alpha1.SimulationStatus) []*v1alpha1.SimulationOutcome {
	outcomes := []*v1alpha1.SimulationOutcome{&s.Actual, &s.Current}
	if s.New != nil {
		outcomes = append(outcomes, s.New)
	}
	return outcomes
}

// ResourcesOf returns the resources of all outcomes, in their order.
func ResourcesOf(outcomes []*v1alpha1.SimulationOutcome) (resources []string) {
	for _, outcome := range outcomes {
		for _, u := range outcome.Utilization {
			if !slices.Contains(resources, u.Resource) {
				resources = append(resources, u.Resource)
			}
		}
	}
	return resources
}

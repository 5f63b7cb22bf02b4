// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/api/v1alpha1"
)

// attemptDuration is the name of kube-scheduler's metric.
const attemptDuration = "scheduler_scheduling_attempt_duration_seconds"

// attempts are the attempts of all profiles since the process was started.
type attempts struct {
	// byResult are their numbers by result.
	byResult map[string]uint64
	// placed is the histogram of the durations of those that placed a pod: how many took at most
	// so many seconds.
	placed map[float64]uint64
}

// readAttempts reads the present numbers.
func readAttempts(gatherer metrics.Gatherer) (attempts, error) {
	a := attempts{byResult: map[string]uint64{}, placed: map[float64]uint64{}}
	families, err := gatherer.Gather()
	if err != nil {
		return a, fmt.Errorf("gathering metrics: %w", err)
	}
	for _, family := range families {
		if family.GetName() != attemptDuration {
			continue
		}
		for _, metric := range family.GetMetric() {
			result := ""
			for _, label := range metric.GetLabel() {
				if label.GetName() == "result" {
					result = label.GetValue()
				}
			}
			histogram := metric.GetHistogram()
			a.byResult[result] += histogram.GetSampleCount()
			if result != schedmetrics.ScheduledResult {
				continue
			}
			for _, bucket := range histogram.GetBucket() {
				a.placed[bucket.GetUpperBound()] += bucket.GetCumulativeCount()
			}
			a.placed[math.Inf(1)] += histogram.GetSampleCount()
		}
	}
	return a, nil
}

// since returns the attempts after earlier ones, as a part of a sample.
func (a attempts) since(before attempts) v1alpha1.LoadSample {
	of := func(result string) int32 { return int32(a.byResult[result] - before.byResult[result]) }
	return v1alpha1.LoadSample{
		Bound: of(schedmetrics.ScheduledResult), Unschedulable: of(schedmetrics.UnschedulableResult),
		Failed: of(schedmetrics.ErrorResult),
		P50:    a.quantile(before, 0.5), P99: a.quantile(before, 0.99),
	}
}

// quantile returns a quantile of the durations after earlier ones, nil if there are none. It takes
// the durations in a bucket as evenly spread, as Prometheus does. A quantile in the last bucket is
// the largest bound.
func (a attempts) quantile(before attempts, q float64) *metav1.Duration {
	bounds := slices.Sorted(maps.Keys(a.placed))
	count := func(i int) float64 { return float64(a.placed[bounds[i]] - before.placed[bounds[i]]) }
	if len(bounds) < 2 || count(len(bounds)-1) == 0 {
		return nil
	}
	rank := q * count(len(bounds)-1)
	lower, counted := 0.0, 0.0
	for i, upper := range bounds[:len(bounds)-1] {
		if until := count(i); until >= rank && until > counted {
			return seconds(lower + (upper-lower)*(rank-counted)/(until-counted))
		}
		lower, counted = upper, count(i)
	}
	return seconds(lower)
}

func seconds(s float64) *metav1.Duration {
	return &metav1.Duration{Duration: time.Duration(s * float64(time.Second)).Round(time.Microsecond)}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	"k8s.io/component-base/metrics/legacyregistry"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

// seriesOf counts the metric series of a scheduler name.
func seriesOf(t *testing.T, schedulerName string) int {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	must(t, err)
	count := 0
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if strings.HasPrefix(family.GetName(), "scheduler_") && label.GetName() == "profile" && label.GetValue() == schedulerName {
					count++
				}
			}
		}
	}
	return count
}

func TestTheMetricSeriesOfAProfile(t *testing.T) {
	t.Run("go with its last instance", func(t *testing.T) {
		e := newTestEnv(t, nil)
		first := e.build(t, object("with-series"))
		schedmetrics.PodScheduled("with-series", 0.1)
		if seriesOf(t, "with-series") == 0 {
			t.Fatal("a profile that is built has no series")
		}
		second := e.build(t, object("with-series"))
		first.Release(logr.Discard())
		<-first.Closed()
		if seriesOf(t, "with-series") == 0 {
			t.Error("the series went with the first of two instances")
		}
		second.Release(logr.Discard())
		<-second.Closed()
		if n := seriesOf(t, "with-series"); n != 0 {
			t.Errorf("%d series are left", n)
		}
	})

	t.Run("go with a build that failed, but not those of another name", func(t *testing.T) {
		fs := &fakes{}
		e := newTestEnv(t, fs.registry(func(f *fake) error {
			schedmetrics.PodScheduled(f.handle.ProfileName(), 0.1)
			panic("no luck")
		}))
		e.build(t, object("other"))
		if _, err := e.builder().Build(e.ctx, e.resolve(t, object("failing", "Broken"))); err == nil {
			t.Fatal("the build did not fail")
		}
		eventually(t, func() int { return seriesOf(t, "failing") }).Should(gomega.BeZero())
		if seriesOf(t, "other") == 0 {
			t.Error("the series of another profile are gone")
		}
	})
}

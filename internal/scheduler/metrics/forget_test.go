// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/util/sets"
	compmetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

// seriesOf counts the series per family that carry the profile's name.
func seriesOf(t *testing.T, gatherer prometheus.Gatherer, schedulerName string) map[string]int {
	t.Helper()
	families, err := gatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if labelsOf(metric)[LabelProfile] == schedulerName {
				counts[family.GetName()]++
			}
		}
	}
	return counts
}

// forget deletes the series of some profiles.
func forget(gatherer prometheus.Gatherer, registerer prometheus.Registerer, schedulerNames ...string) error {
	found, err := findSeries(gatherer, registerer, sets.New(schedulerNames...))
	for _, series := range found {
		series.Delete()
	}
	return err
}

// forgetRegistered is forget for the metrics that the process serves.
func forgetRegistered(schedulerName string) error {
	found, err := FindSeries(sets.New(schedulerName))
	found[schedulerName].Delete()
	return err
}

// touchProfile makes a series in every vector of kube-scheduler that has the profile as a label.
func touchProfile(schedulerName string) {
	schedmetrics.PodScheduled(schedulerName, 0.01)
	schedmetrics.PodUnschedulable(schedulerName, 0.01)
	schedmetrics.PodScheduleError(schedulerName, 0.01)
	schedmetrics.UnschedulableReason("NodeAffinity", schedulerName).Inc()
	schedmetrics.UnschedulableReason("NodeResourcesFit", schedulerName).Inc()
	schedmetrics.FrameworkExtensionPointDuration.WithLabelValues(schedmetrics.Filter, "Success", schedulerName).
		Observe(0.001)
	schedmetrics.PluginEvaluationTotal.WithLabelValues("NodeAffinity", schedmetrics.Filter, schedulerName).Inc()
	schedmetrics.BatchAttemptStats.WithLabelValues(schedulerName, schedmetrics.BatchAttemptNoHint).Inc()
	schedmetrics.BatchCacheFlushed.WithLabelValues(schedulerName, schedmetrics.BatchFlushExpired).Inc()
	schedmetrics.BatchRescoreAttempts.WithLabelValues(schedulerName).Inc()
	schedmetrics.BatchRescoreDuration.WithLabelValues(schedulerName).Observe(0.001)
	schedmetrics.GetNodeHintDuration.WithLabelValues("hinted", schedulerName).Observe(0.001)
	schedmetrics.StoreScheduleResultsDuration.WithLabelValues(schedulerName).Observe(0.001)
}

func TestDeletingTheSeriesOfAProfileLeavesNone(t *testing.T) {
	Register()
	touchProfile("gone")
	touchProfile("stays")
	before := seriesOf(t, legacyregistry.DefaultGatherer, "gone")
	if len(before) != 11 {
		t.Fatalf("%d metrics carry the profile's name, want 11: %v", len(before), before)
	}

	if err := forgetRegistered("gone"); err != nil {
		t.Fatal(err)
	}

	if left := seriesOf(t, legacyregistry.DefaultGatherer, "gone"); len(left) != 0 {
		t.Errorf("series left: %v", left)
	}
	if stays := seriesOf(t, legacyregistry.DefaultGatherer, "stays"); len(stays) != len(before) {
		t.Errorf("the other profile has %d metrics left of %d: %v", len(stays), len(before), stays)
	}
	if strings.Contains(scrape(t), `profile="gone"`) {
		t.Error("the endpoint still serves the profile")
	}
}

func TestDeletingTheSeriesOfAProfileWithoutAnyDoesNothing(t *testing.T) {
	Register()
	touchProfile("stays")
	before := seriesOf(t, legacyregistry.DefaultGatherer, "stays")
	if err := forgetRegistered("never-seen"); err != nil {
		t.Fatal(err)
	}
	if after := seriesOf(t, legacyregistry.DefaultGatherer, "stays"); len(after) != len(before) {
		t.Errorf("metrics of another profile: %v, want %v", after, before)
	}
}

func TestForgottenProfileIsMeasuredAgain(t *testing.T) {
	Register()
	touchProfile("returns")
	want := seriesOf(t, legacyregistry.DefaultGatherer, "returns")
	if err := forgetRegistered("returns"); err != nil {
		t.Fatal(err)
	}
	touchProfile("returns")
	if got := seriesOf(t, legacyregistry.DefaultGatherer, "returns"); len(got) != len(want) {
		t.Errorf("metrics after the return: %v, want those of %v", got, want)
	}
	if err := forgetRegistered("returns"); err != nil {
		t.Fatal(err)
	}
}

func TestDeletingTheSeriesOfPlugins(t *testing.T) {
	t.Run("a plugin's vector in any label order is cleaned", func(t *testing.T) {
		registry := compmetrics.NewKubeRegistry()
		vec := compmetrics.NewGaugeVec(&compmetrics.GaugeOpts{Subsystem: "scheduler", Name: "quota_used",
			Help: "Used quota."}, []string{"zone", "profile", "quota"})
		registry.MustRegister(vec)
		vec.WithLabelValues("a", "gone", "x").Set(1)
		vec.WithLabelValues("b", "gone", "y").Set(1)
		vec.WithLabelValues("a", "stays", "x").Set(1)

		if err := forget(registry, registry.Registerer(), "gone"); err != nil {
			t.Fatal(err)
		}
		if left := seriesOf(t, registry, "gone"); len(left) != 0 {
			t.Errorf("series left: %v", left)
		}
		if got := seriesOf(t, registry, "stays")["scheduler_quota_used"]; got != 1 {
			t.Errorf("%d series of the other profile, want 1", got)
		}
	})

	t.Run("a profile label of a metric that is not the scheduler's is left alone", func(t *testing.T) {
		registry := prometheus.NewRegistry()
		vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pprof_requests_total", Help: "Requests."},
			[]string{"profile"})
		registry.MustRegister(vec)
		vec.WithLabelValues("gone").Inc()

		if err := forget(registry, registry, "gone"); err != nil {
			t.Fatal(err)
		}
		if got := seriesOf(t, registry, "gone")["pprof_requests_total"]; got != 1 {
			t.Errorf("%d series left, want 1", got)
		}
	})

	t.Run("metrics that cannot be cleaned are named and do not stop the others", func(t *testing.T) {
		registry := prometheus.NewRegistry()
		constant := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "scheduler_a", Help: "A.",
			ConstLabels: prometheus.Labels{"zone": "z"}}, []string{"profile"})
		ordinary := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "scheduler_c", Help: "C."}, []string{"profile"})
		registry.MustRegister(constant, silent{}, ordinary)
		constant.WithLabelValues("gone").Set(1)
		ordinary.WithLabelValues("gone").Set(1)

		for range 2 {
			err := forget(registry, registry, "gone")
			if err == nil || !strings.Contains(err.Error(), "scheduler_a") ||
				!strings.Contains(err.Error(), "scheduler_b") || strings.Contains(err.Error(), "scheduler_c") {
				t.Errorf("error %v, want one that names scheduler_a and scheduler_b only", err)
			}
		}
		if got := seriesOf(t, registry, "gone"); len(got) != 2 || got["scheduler_c"] != 0 {
			t.Errorf("series left: %v, want those of scheduler_a and scheduler_b", got)
		}
	})
}

// TestManyProfilesAreForgottenAtOnce shows that the metrics are read once, however many profiles
// go: reading them takes as long as there are profiles.
func TestManyProfilesAreForgottenAtOnce(t *testing.T) {
	registry := prometheus.NewRegistry()
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "scheduler_decisions_total", Help: "Decisions."},
		[]string{"result", "profile"})
	registry.MustRegister(vec)
	vec.WithLabelValues("success", "stays").Inc()
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprint("gone-", i))
		vec.WithLabelValues("success", names[i]).Inc()
		vec.WithLabelValues("failure", names[i]).Inc()
	}
	reads := 0
	counted := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		reads++
		return registry.Gather()
	})
	if err := forget(counted, registry, names...); err != nil {
		t.Fatal(err)
	}
	if left := testutil.CollectAndCount(vec); left != 1 || reads != 1 {
		t.Errorf("%d series are left, want 1; the metrics were read %d times, want once", left, reads)
	}
}

func TestOurOwnSeriesOfAProfileAreForgotten(t *testing.T) {
	Register()
	SlowCycles.Reset()
	PodGroupScheduling.Reset()
	for _, name := range []string{"gone", "stays"} {
		SlowCycles.WithLabelValues(name).Inc()
		PodGroupScheduling.WithLabelValues(name, GroupScheduled).Observe(1)
		PodGroupScheduling.WithLabelValues(name, GroupUnschedulable).Observe(1)
	}
	if err := forgetRegistered("gone"); err != nil {
		t.Fatal(err)
	}
	if slow, groups := testutil.CollectAndCount(SlowCycles), testutil.CollectAndCount(PodGroupScheduling); slow != 1 ||
		groups != 2 {
		t.Errorf("%d and %d series are left, want 1 and 2", slow, groups)
	}
}

// silent is an unchecked collector: it describes nothing.
type silent struct{}

func (silent) Describe(chan<- *prometheus.Desc) {}

func (silent) Collect(ch chan<- prometheus.Metric) {
	desc := prometheus.NewDesc("scheduler_b", "B.", []string{"profile"}, nil)
	ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, 1, "gone")
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

func gauges(t *testing.T, value float64, names ...string) prometheus.Gatherer {
	t.Helper()
	registry := prometheus.NewRegistry()
	for _, name := range names {
		gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: name})
		gauge.Set(value)
		registry.MustRegister(gauge)
	}
	return registry
}

func TestUnion(t *testing.T) {
	failing := func(g prometheus.Gatherer, err error) prometheus.Gatherer {
		return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
			families, _ := g.Gather()
			return families, err
		})
	}
	errFirst, errSecond := errors.New("first"), errors.New("second")

	for name, test := range map[string]struct {
		union union
		want  map[string]float64
		errs  []error
	}{
		"families of both are served": {
			union: union{gauges(t, 1, "b"), gauges(t, 2, "a", "c")},
			want:  map[string]float64{"a": 2, "b": 1, "c": 2},
		},
		"the first one wins where both have a family": {
			union: union{gauges(t, 1, "a", "b"), gauges(t, 2, "a", "c")},
			want:  map[string]float64{"a": 1, "b": 1, "c": 2},
		},
		"an error of one does not hide the other's families": {
			union: union{failing(gauges(t, 1, "a"), errFirst), gauges(t, 2, "b")},
			want:  map[string]float64{"a": 1, "b": 2},
			errs:  []error{errFirst},
		},
		"errors of both are reported": {
			union: union{failing(gauges(t, 1), errFirst), failing(gauges(t, 2, "b"), errSecond)},
			want:  map[string]float64{"b": 2},
			errs:  []error{errFirst, errSecond},
		},
	} {
		t.Run(name, func(t *testing.T) {
			families, err := test.union.Gather()
			for _, want := range test.errs {
				if !errors.Is(err, want) {
					t.Errorf("error %v does not contain %v", err, want)
				}
			}
			if len(test.errs) == 0 && err != nil {
				t.Errorf("unexpected error: %v", err)
			}
			got := map[string]float64{}
			for _, family := range families {
				got[family.GetName()] = family.GetMetric()[0].GetGauge().GetValue()
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("families (-want +got):\n%s", diff)
			}
		})
	}
}

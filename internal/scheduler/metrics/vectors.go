// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/prometheus/client_golang/prometheus"

// collectors are livesched's own metrics, which Register registers. The functions below, which make
// them, append to it while the package is initialized.
var collectors []prometheus.Collector

func own[C prometheus.Collector](c C) C {
	collectors = append(collectors, c)
	return c
}

func newCounter(name, help string) prometheus.Counter {
	return own(prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}))
}

func newCounterVec(name, help string, labels ...string) *prometheus.CounterVec {
	return own(prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
}

func newGauge(name, help string) prometheus.Gauge {
	return own(prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help}))
}

func newGaugeVec(name, help string, labels ...string) *prometheus.GaugeVec {
	return own(prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels))
}

// newGaugeFunc makes a gauge of the sum of sources.
func newGaugeFunc(of *sources, labels prometheus.Labels, name, help string) prometheus.GaugeFunc {
	return own(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, of.sum))
}

// durations returns the options of a histogram of 16 buckets. The first is in seconds, and each is
// twice the one before.
func durations(name string, first float64, help string) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(first, 2, 16)}
}

func newHistogram(name string, first float64, help string) prometheus.Histogram {
	return own(prometheus.NewHistogram(durations(name, first, help)))
}

func newHistogramVec(name string, first float64, help string, labels ...string) *prometheus.HistogramVec {
	return own(prometheus.NewHistogramVec(durations(name, first, help), labels))
}

// zero creates series, so that they are 0 before the first measurement.
func zero[T any](of interface{ WithLabelValues(...string) T }, values ...string) {
	for _, value := range values {
		of.WithLabelValues(value)
	}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/livesched/livesched/internal/scheduler/metrics"
)

// instruments are the metrics of an Engine.
type instruments struct {
	memory, memoryLimit, classes, labelKeys prometheus.Gauge
	evictions, hits, news, returns          prometheus.Counter
}

// ofProcess returns the metrics of the process.
func ofProcess() *instruments {
	return &instruments{
		memory: metrics.FastPathMemory, memoryLimit: metrics.FastPathMemoryLimit,
		classes: metrics.FastPathClasses, labelKeys: metrics.FastPathLabelKeys,
		evictions: metrics.FastPathEvictions,
		hits:      metrics.ClassLookups.WithLabelValues(metrics.ClassHit),
		news:      metrics.ClassLookups.WithLabelValues(metrics.ClassNew),
		returns:   metrics.ClassLookups.WithLabelValues(metrics.ClassEvicted),
	}
}

// discarded returns metrics that are not exported.
func discarded() *instruments {
	gauge := func() prometheus.Gauge { return prometheus.NewGauge(prometheus.GaugeOpts{}) }
	counter := func() prometheus.Counter { return prometheus.NewCounter(prometheus.CounterOpts{}) }
	return &instruments{
		memory: gauge(), memoryLimit: gauge(), classes: gauge(), labelKeys: gauge(),
		evictions: counter(), hits: counter(), news: counter(), returns: counter(),
	}
}

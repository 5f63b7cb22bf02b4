// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"github.com/prometheus/client_golang/prometheus"
	compbasemetrics "k8s.io/component-base/metrics"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/scheduler/metrics"
)

// instruments are the metrics of an Engine.
type instruments struct {
	memory, memoryLimit, classes, labelKeys prometheus.Gauge
	evictions, hits, news, returns          prometheus.Counter
	deviceMisses                            prometheus.Counter
	// deviceDecisions counts decisions about devices by why they keep no verdicts.
	deviceDecisions *prometheus.CounterVec
	// decisions counts decisions by path and reason. counters are those that were used.
	decisions *prometheus.CounterVec
	counters  map[pathReason]prometheus.Counter
	// points measures extension points.
	points *compbasemetrics.HistogramVec
}

type pathReason struct {
	path   string
	reason Reason
}

// Count counts a decision that was made on a path for a reason.
func (e *Engine) Count(path string, reason Reason) {
	in, key := e.classes.instruments, pathReason{path, reason}
	counter, ok := in.counters[key]
	if !ok {
		counter = in.decisions.WithLabelValues(path, string(reason))
		in.counters[key] = counter
	}
	counter.Inc()
}

// deviceDecision counts a decision about a pod with devices, by why no verdicts are kept for it.
func (i *instruments) deviceDecision(without string) {
	i.deviceDecisions.WithLabelValues(without).Inc()
}

// ofProcess returns the metrics of the process.
func ofProcess() *instruments {
	return &instruments{
		memory: metrics.FastPathMemory, memoryLimit: metrics.FastPathMemoryLimit,
		classes: metrics.FastPathClasses, labelKeys: metrics.FastPathLabelKeys,
		evictions: metrics.FastPathEvictions, deviceMisses: metrics.FastPathDeviceMisses,
		deviceDecisions: metrics.FastPathDeviceDecisions,
		hits:            metrics.ClassLookups.WithLabelValues(metrics.ClassHit),
		news:            metrics.ClassLookups.WithLabelValues(metrics.ClassNew),
		returns:         metrics.ClassLookups.WithLabelValues(metrics.ClassEvicted),
		decisions:       metrics.Decisions, counters: map[pathReason]prometheus.Counter{},
		points: schedmetrics.FrameworkExtensionPointDuration,
	}
}

// discarded returns metrics that are not exported.
func discarded() *instruments {
	gauge := func() prometheus.Gauge { return prometheus.NewGauge(prometheus.GaugeOpts{}) }
	counter := func() prometheus.Counter { return prometheus.NewCounter(prometheus.CounterOpts{}) }
	return &instruments{
		memory: gauge(), memoryLimit: gauge(), classes: gauge(), labelKeys: gauge(),
		evictions: counter(), hits: counter(), news: counter(), returns: counter(), deviceMisses: counter(),
		deviceDecisions: prometheus.NewCounterVec(prometheus.CounterOpts{}, []string{"without"}),
		decisions:       prometheus.NewCounterVec(prometheus.CounterOpts{}, []string{"path", "reason"}),
		counters:        map[pathReason]prometheus.Counter{},
		// it does nothing unless it is registered
		points: compbasemetrics.NewHistogramVec(&compbasemetrics.HistogramOpts{}, nil),
	}
}

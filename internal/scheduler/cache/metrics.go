// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"time"

	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

// metricsPeriod is how often Run sets the gauges, as in kube-scheduler.
const metricsPeriod = time.Second

// Run keeps the metric scheduler_cache_size up to date until ctx ends. The metrics must be
// registered already.
func (c *Cache) Run(ctx context.Context) {
	ticker := c.clock.NewTicker(metricsPeriod)
	defer ticker.Stop()
	for {
		c.recordSize()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// recordSize sets the gauges.
func (c *Cache) recordSize() {
	size := c.Size()
	schedmetrics.CacheSize.WithLabelValues("nodes").Set(float64(size.Nodes))
	schedmetrics.CacheSize.WithLabelValues("pods").Set(float64(size.Pods))
	schedmetrics.CacheSize.WithLabelValues("assumed_pods").Set(float64(size.AssumedPods))
}

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

// Run keeps the metric scheduler_cache_size up to date until ctx ends. Metrics must have been
// registered.
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
	c.mu.RLock()
	nodes, pods, assumed := len(c.nodes), len(c.pods), c.assumed
	c.mu.RUnlock()
	schedmetrics.CacheSize.WithLabelValues("nodes").Set(float64(nodes))
	schedmetrics.CacheSize.WithLabelValues("pods").Set(float64(pods))
	schedmetrics.CacheSize.WithLabelValues("assumed_pods").Set(float64(assumed))
}

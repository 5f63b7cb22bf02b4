// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"time"

	"k8s.io/klog/v2"

	"github.com/livesched/livesched/internal/scheduler/metrics"
)

const (
	// slowCycle is the duration from which on a scheduling cycle is reported as slow, as in
	// kube-scheduler.
	slowCycle = 100 * time.Millisecond
	// sampledAfterSlow is the number of cycles after a slow one in which every call of a plugin is
	// measured. If one of them is slow, too, the log can name a plugin that is slow on each node.
	sampledAfterSlow = 10
)

// reportIfSlow counts a cycle that was slow, and logs what took longest.
func (c *cycle) reportIfSlow(logger klog.Logger) {
	took := c.loop.Clock.Since(c.start)
	if took < slowCycle {
		return
	}
	c.loop.sampled = sampledAfterSlow
	metrics.SlowCycles.WithLabelValues(c.profile.SchedulerName()).Inc()
	longest, duration := c.timing.Longest()
	values := []any{"profile", c.profile.SchedulerName(), "duration", took, "longestStep", longest.Step, "stepDuration",
		duration}
	switch {
	case longest.Plugin != "":
		values = append(values, "plugin", longest.Plugin)
	case longest.Extender != "":
		values = append(values, "extender", longest.Extender, "verb", longest.Verb)
	}
	logger.Info("A scheduling cycle was slow", values...)
}

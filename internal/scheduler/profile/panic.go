// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"k8s.io/klog/v2"

	"github.com/livesched/livesched/internal/informers"
	"github.com/livesched/livesched/internal/scheduler/metrics"
)

// unknownPlugin is the owner of event handlers that are added while no plugin is being built.
const unknownPlugin = "unknown"

// reportHandlerPanic counts a panic in a plugin's event handler. It logs the first panic of each
// handler, with its stack.
func reportHandlerPanic(logger klog.Logger, schedulerName string, p informers.HandlerPanic) {
	metrics.HandlerPanics.WithLabelValues(p.Owner, p.Kind.Kind).Inc()
	if p.Stack == nil {
		return
	}
	logger.Error(nil, "An event handler of a plugin panicked and missed the event; its further panics are only counted",
		"schedulerName", schedulerName, "plugin", p.Owner, "kind", p.Kind.String(), "panic", p.Value, "stack",
		string(p.Stack))
}

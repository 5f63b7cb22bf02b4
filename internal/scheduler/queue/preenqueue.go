// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime/debug"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

const (
	preEnqueue = "PreEnqueue"
	// pluginMetricsSamplePercent is the share of PreEnqueue runs of which the duration of each
	// plugin is recorded, as in kube-scheduler.
	pluginMetricsSamplePercent = 10
)

// admission is what the PreEnqueue plugins say of a pod together.
type admission int

const (
	// admitted: all plugins let it pass.
	admitted admission = iota
	// refused: one plugin gates it.
	refused
	// failed: one plugin met an error, so nobody knows. The pod must not be scheduled, and is to be
	// tried again.
	failed
)

// runPreEnqueueLocked asks the PreEnqueue plugins about the pod and writes the answer into the
// entry. The plugin that gates the pod is asked first, and the first one that does not let it pass
// is the last one asked. It needs mu since the answer must be acted on before the next event.
func (q *Queue) runPreEnqueueLocked(logger klog.Logger, e *entry) admission {
	info, p := e.info, e.profile
	if len(p.preEnqueue) == 0 {
		q.admitLocked(logger, e)
		return admitted
	}
	start := q.clock.Now()
	plugin, status := q.firstRefusalLocked(klog.NewContext(context.Background(), logger), e)
	schedmetrics.FrameworkExtensionPointDuration.WithLabelValues(preEnqueue, status.Code().String(), p.name).
		Observe(q.clock.Since(start).Seconds())

	switch {
	case status.IsSuccess():
		q.admitLocked(logger, e)
		return admitted
	case status.IsError():
		e.failures++
		e.failure = fmt.Sprintf("%s: %s", plugin, status.Message())
		info.GatingPlugin, info.GatingPluginEvents = "", nil
		if e.failures == 1 { // the retries would repeat it
			logger.Error(status.AsError(), "A PreEnqueue plugin failed; the pod is tried again after a back-off",
				"plugin", plugin, "pod", klog.KObj(e.pod))
		}
		return failed
	}
	if l := logger.V(4); l.Enabled() {
		l.Info("The pod is gated", "plugin", plugin, "pod", klog.KObj(e.pod), "status", status)
	}
	e.failures, e.failure = 0, ""
	info.GatingPlugin, info.GatingPluginEvents = plugin, p.events[plugin]
	// An event that may help the pod is one that interests the gating plugin, so it counts among
	// those that refused it.
	if !info.UnschedulablePlugins.Has(plugin) {
		if !info.PendingPlugins.Has(plugin) {
			q.metrics.refused(plugin, p.name, 1)
		}
		if info.UnschedulablePlugins == nil {
			info.UnschedulablePlugins = sets.New[string]()
		}
		info.UnschedulablePlugins.Insert(plugin)
	}
	return refused
}

// admitLocked notes that nothing keeps the pod out any more.
func (q *Queue) admitLocked(logger klog.Logger, e *entry) {
	wasGated := e.info.Gated()
	e.failures, e.failure = 0, ""
	e.info.GatingPlugin, e.info.GatingPluginEvents = "", nil
	if wasGated {
		// Nothing is held free for gated pods, so a node in the pod's status may be news.
		q.nominator.addIfUnknownQueueLocked(logger, e.info.PodInfo)
	}
}

// firstRefusalLocked returns the first answer that is not success, and whose it is.
func (q *Queue) firstRefusalLocked(ctx context.Context, e *entry) (string, *fwk.Status) {
	gate := e.info.GatingPlugin
	measured := rand.IntN(100) < pluginMetricsSamplePercent
	if gate != "" {
		for i := range e.profile.preEnqueue {
			if pl := &e.profile.preEnqueue[i]; pl.name == gate {
				if status := q.callPreEnqueueLocked(ctx, pl, e, measured); !status.IsSuccess() {
					return pl.name, status
				}
			}
		}
	}
	for i := range e.profile.preEnqueue {
		if pl := &e.profile.preEnqueue[i]; pl.name != gate {
			if status := q.callPreEnqueueLocked(ctx, pl, e, measured); !status.IsSuccess() {
				return pl.name, status
			}
		}
	}
	return "", nil
}

// callPreEnqueueLocked calls one plugin. A panic is an error of the plugin's.
func (q *Queue) callPreEnqueueLocked(ctx context.Context, pl *preEnqueuePlugin, e *entry, measured bool) (status *fwk.Status) {
	start := q.clock.Now()
	defer func() {
		if r := recover(); r != nil {
			q.reportPanicLocked(klog.FromContext(ctx), preEnqueue, pl.name, r)
			status = fwk.AsStatus(fmt.Errorf("panic: %v", r))
		}
		if measured && q.metrics.async != nil {
			q.metrics.async.ObservePluginDurationAsync(preEnqueue, pl.name, status.Code().String(), q.clock.Since(start).Seconds())
		}
	}()
	return pl.plugin.PreEnqueue(ctx, e.pod)
}

// reportPanicLocked logs a panic of a plugin with its stack, once per generation of profiles: a
// plugin that panics for one pod tends to do so for all. It is called from the recovering function,
// so that the stack is the plugin's.
func (q *Queue) reportPanicLocked(logger klog.Logger, what, plugin string, value any) {
	if q.firstReportLocked(what, plugin) {
		logger.Error(nil, "A plugin panicked; this is not logged again until profiles change", "extensionPoint", what, "plugin", plugin,
			"panic", value, "stack", string(debug.Stack()))
	}
}

// firstReportLocked reports whether the plugin's violation is the first of its kind since the last
// reload.
func (q *Queue) firstReportLocked(what, plugin string) bool {
	key := what + "/" + plugin
	if q.reported.Has(key) {
		return false
	}
	q.reported.Insert(key)
	return true
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime/debug"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

const (
	preEnqueue = "PreEnqueue"
	// pluginMetricsSamplePercent is the percentage of PreEnqueue runs for which the duration of
	// each plugin is recorded, as in kube-scheduler.
	pluginMetricsSamplePercent = 10
)

// admission is the combined result of a pod's PreEnqueue plugins.
type admission int

const (
	// admitted: all plugins admit the pod.
	admitted admission = iota
	// refused: a plugin gates the pod.
	refused
	// failed: a plugin met an error. The pod must not be scheduled, and the plugins run again
	// later.
	failed
)

// runPreEnqueueLocked runs the PreEnqueue plugins and records the result in the entry. The plugin
// that gated the pod runs first, and the first refusal or error ends the run. mu is held because
// the result must be applied before the next event.
func (q *Queue) runPreEnqueueLocked(logger klog.Logger, e *entry) admission {
	info, p := e.info, e.profile
	if len(p.settings.PreEnqueue) == 0 {
		return q.admitLocked(logger, e)
	}
	start := q.clock.Now()
	plugin, status := q.firstRefusalLocked(klog.NewContext(context.Background(), logger), e)
	schedmetrics.FrameworkExtensionPointDuration.WithLabelValues(preEnqueue, status.Code().String(), p.name).
		Observe(q.clock.Since(start).Seconds())

	switch {
	case status.IsSuccess():
		return q.admitLocked(logger, e)
	case status.IsError():
		e.member.set(false, false)
		e.failures++
		e.failure = fmt.Sprintf("%s: %s", plugin, status.Message())
		e.refusal, info.GatingPlugin, info.GatingPluginEvents = "", "", nil
		if e.failures == 1 { // retries would repeat the message
			logger.Error(status.AsError(), "A PreEnqueue plugin failed; the pod is retried after a back-off",
				"plugin", plugin, "pod", klog.KObj(e.pod))
		}
		return failed
	}
	if l := logger.V(4); l.Enabled() {
		l.Info("The pod is gated", "plugin", plugin, "pod", klog.KObj(e.pod), "status", status)
	}
	e.member.set(false, false)
	q.refuseLocked(e, plugin, status.Message(), p.events[plugin])
	return refused
}

// admitLocked records that no PreEnqueue plugin refuses the pod. The gate of its group may still
// hold it.
func (q *Queue) admitLocked(logger klog.Logger, e *entry) admission {
	if !q.passGateLocked(e) {
		q.refuseLocked(e, podgroup.Gate, q.awaitedLocked(e.member.of), nil)
		return refused
	}
	e.failures, e.failure, e.refusal = 0, "", ""
	e.info.GatingPlugin, e.info.GatingPluginEvents = "", nil
	return admitted
}

// firstRefusalLocked returns the first status that is not success, and its plugin.
func (q *Queue) firstRefusalLocked(ctx context.Context, e *entry) (string, *fwk.Status) {
	gate := e.info.GatingPlugin
	measured := rand.IntN(100) < pluginMetricsSamplePercent
	for _, gating := range []bool{true, false} {
		for _, pl := range e.profile.settings.PreEnqueue {
			if (pl.Name() == gate) != gating {
				continue
			}
			if status := q.callPreEnqueueLocked(ctx, pl, e, measured); !status.IsSuccess() {
				return pl.Name(), status
			}
		}
	}
	return "", nil
}

// callPreEnqueueLocked calls one plugin. A panic counts as an error of the plugin.
func (q *Queue) callPreEnqueueLocked(ctx context.Context, pl fwk.PreEnqueuePlugin, e *entry,
	measured bool) (status *fwk.Status) {
	start := q.clock.Now()
	defer func() {
		if r := recover(); r != nil {
			q.reportPanicLocked(klog.FromContext(ctx), preEnqueue, pl.Name(), r)
			status = fwk.AsStatus(fmt.Errorf("panic: %v", r))
		}
		if measured && q.metrics.async != nil {
			q.metrics.async.ObservePluginDurationAsync(preEnqueue, pl.Name(), status.Code().String(),
				q.clock.Since(start).Seconds())
		}
	}()
	return pl.PreEnqueue(ctx, e.pod)
}

// reportPanicLocked logs a panic of a plugin with its stack, once until the next reload: a plugin
// that panics for one pod tends to do so for all. The deferred function that recovers must call it,
// so that the stack is the plugin's.
func (q *Queue) reportPanicLocked(logger klog.Logger, what, plugin string, value any) {
	if q.firstReportLocked(what, plugin) {
		logger.Error(nil, "A plugin panicked; this is not logged again until the profiles change", "extensionPoint",
			what, "plugin", plugin,
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

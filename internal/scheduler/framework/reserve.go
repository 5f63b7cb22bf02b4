// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

// RunReservePluginsReserve calls Reserve of the Reserve plugins, in order, and stops at the first
// that refuses or fails. The caller must then call RunReservePluginsUnreserve.
func (f *Framework) RunReservePluginsReserve(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string,
) (status *fwk.Status) {
	defer f.observePoint(schedmetrics.Reserve, time.Now(), &status)
	logger := newPointLogger(ctx, schedmetrics.Reserve, "node", klog.KRef("", nodeName))
	for _, pl := range f.cfg.Plugins.Reserve {
		ctx := logger.context(ctx, pl.Name())
		s := f.call(ctx, state, schedmetrics.Reserve, pl.Name(), func() *fwk.Status {
			return pl.Reserve(ctx, state, pod, nodeName)
		})
		if !s.IsSuccess() {
			return logger.refusedOrFailed(schedmetrics.Reserve, pl.Name(), pod, s)
		}
	}
	return nil
}

// RunReservePluginsUnreserve calls Unreserve of all Reserve plugins, in reverse order, including
// those whose Reserve was not called.
func (f *Framework) RunReservePluginsUnreserve(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string,
) {
	var success *fwk.Status
	defer f.observePoint(schedmetrics.Unreserve, time.Now(), &success)
	logger := newPointLogger(ctx, schedmetrics.Unreserve, "node", klog.KRef("", nodeName))
	for _, pl := range slices.Backward(f.cfg.Plugins.Reserve) {
		ctx := logger.context(ctx, pl.Name())
		// A panic has been logged by call. The other plugins must still run.
		f.call(ctx, state, schedmetrics.Unreserve, pl.Name(), func() *fwk.Status {
			pl.Unreserve(ctx, state, pod, nodeName)
			return nil
		})
	}
}

// refusedOrFailed returns the status of a pod that a plugin refused, with the plugin's name, or
// failed.
func (l pointLogger) refusedOrFailed(point, plugin string, pod *corev1.Pod, status *fwk.Status) *fwk.Status {
	if status.IsRejected() {
		l.V(4).Info("Plugin refused the pod", "extensionPoint", point, "plugin", plugin,
			"pod", klog.KObj(pod), "status", status.Message())
		return status.WithPlugin(plugin)
	}
	status = failed(point, plugin, status)
	l.Error(status.AsError(), "Plugin failed", "extensionPoint", point, "plugin", plugin, "pod", klog.KObj(pod))
	return status
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

// RunBindPlugins binds the pod with the first Bind plugin that does not skip it, and returns that
// plugin's status; Skip if all of them do.
func (f *Framework) RunBindPlugins(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string,
) (status *fwk.Status) {
	defer f.observePoint(schedmetrics.Bind, time.Now(), &status)
	logger := newPointLogger(ctx, schedmetrics.Bind, "node", klog.KRef("", nodeName))
	status = fwk.NewStatus(fwk.Skip)
	for _, pl := range f.cfg.Plugins.Bind {
		ctx := logger.context(ctx, pl.Name())
		status = f.call(ctx, state, schedmetrics.Bind, pl.Name(), func() *fwk.Status {
			return pl.Bind(ctx, state, pod, nodeName)
		})
		switch {
		case status.IsSkip():
		case status.IsSuccess():
			return status
		default:
			return logger.refusedOrFailed(schedmetrics.Bind, pl.Name(), pod, status)
		}
	}
	return status
}

// RunPostBindPlugins runs the PostBind plugins after the pod was bound.
func (f *Framework) RunPostBindPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string) {
	var success *fwk.Status
	defer f.observePoint(schedmetrics.PostBind, time.Now(), &success)
	logger := newPointLogger(ctx, schedmetrics.PostBind, "node", klog.KRef("", nodeName))
	for _, pl := range f.cfg.Plugins.PostBind {
		ctx := logger.context(ctx, pl.Name())
		// The pod is bound already: call logs a panic, and the other plugins still run.
		f.call(ctx, state, schedmetrics.PostBind, pl.Name(), func() *fwk.Status {
			pl.PostBind(ctx, state, pod, nodeName)
			return nil
		})
	}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

// RunPostFilterPlugins runs the PostFilter plugins, in order, for a pod that fits on no node. The
// first that succeeds, fails or returns UnschedulableAndUnresolvable ends the run. If all return
// Unschedulable, so does RunPostFilterPlugins, with the reasons of all and the name of the first
// plugin, and the result of the last plugin that returned nominating info.
func (f *Framework) RunPostFilterPlugins(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader,
) (result *fwk.PostFilterResult, status *fwk.Status) {
	defer f.observePoint(schedmetrics.PostFilter, time.Now(), &status)
	if state.ShouldSkipAllPostFilterPlugins() {
		return nil, fwk.NewStatus(fwk.Unschedulable, "All PostFilter plugins are skipped")
	}

	logger := newPointLogger(ctx, schedmetrics.PostFilter)
	var reasons []string
	var refusedBy string
	for _, pl := range f.cfg.Plugins.PostFilter {
		if needsPreFilter(pl, state) {
			if err := RunDeferredPreFilter(ctx, state); err != nil {
				return nil, fwk.AsStatus(err)
			}
		}
		ctx := logger.context(ctx, pl.Name())
		own,
			s := callFor(ctx, f, state, schedmetrics.PostFilter, pl.Name(),
			func() (*fwk.PostFilterResult, *fwk.Status) {
				return pl.PostFilter(ctx, state, pod, statuses)
			})
		switch {
		case s.IsSuccess():
			return own, s
		case s.Code() == fwk.UnschedulableAndUnresolvable:
			return own, s.WithPlugin(pl.Name())
		case !s.IsRejected():
			return nil, fwk.AsStatus(statusError(s)).WithPlugin(pl.Name())
		}
		if own != nil && own.Mode() != fwk.ModeNoop {
			result = own
		}
		reasons = append(reasons, s.Reasons()...)
		if refusedBy == "" {
			refusedBy = pl.Name()
		}
	}
	return result, fwk.NewStatus(fwk.Unschedulable, reasons...).WithPlugin(refusedBy)
}

// RunPodGroupPostFilterPlugin runs one PodGroupPostFilter plugin for a group that fits nowhere. The
// plugin gets no function to try the group again. The state is the one of the attempt at the group.
func (f *Framework) RunPodGroupPostFilterPlugin(
	ctx context.Context, state *schedframework.CycleState, pl fwk.PodGroupPostFilterPlugin, group fwk.PodGroupInfo,
) *fwk.Status {
	ctx = newPointLogger(ctx, schedmetrics.PodGroupPostFilter).context(ctx, pl.Name())
	return f.call(ctx, state, schedmetrics.PodGroupPostFilter, pl.Name(), func() *fwk.Status {
		_, status := pl.PodGroupPostFilter(ctx, state, group, nil)
		return status
	})
}

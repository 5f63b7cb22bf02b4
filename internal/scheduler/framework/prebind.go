// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

// errPreBindDone ends the context of PreBind plugins that have all returned.
var errPreBindDone = errors.New("all PreBind plugins have returned")

// RunPreBindPreFlights asks the PreBind plugins whether they have work to do for the pod on this
// node, and whether they can run in parallel with others; state keeps both for RunPreBindPlugins.
// The status is success if any plugin has work to do, Skip if none has, and otherwise an error.
func (f *Framework) RunPreBindPreFlights(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string,
) (status *fwk.Status) {
	defer f.observePoint(schedmetrics.PreBindPreFlight, time.Now(), &status)
	logger := newPointLogger(ctx, schedmetrics.PreBindPreFlight, "node", klog.KRef("", nodeName))
	skipped, parallel := sets.New[string](), sets.New[string]()
	status = fwk.NewStatus(fwk.Skip)
	for _, pl := range f.cfg.Plugins.PreBind {
		ctx := logger.context(ctx, pl.Name())
		result,
			s := callFor(ctx, f, state, schedmetrics.PreBindPreFlight, pl.Name(),
			func() (*fwk.PreBindPreFlightResult, *fwk.Status) {
				return pl.PreBindPreFlight(ctx, state, pod, nodeName)
			})
		if result != nil && result.AllowParallel {
			parallel.Insert(pl.Name())
		}
		switch {
		case s.IsSuccess():
			status = nil
		case s.IsSkip():
			skipped.Insert(pl.Name())
		case s.IsError():
			return logger.refusedOrFailed(schedmetrics.PreBindPreFlight, pl.Name(), pod, s)
		default:
			return fwk.AsStatus(fmt.Errorf(
				"running PreBindPreFlight plugin %q: it returned the status %s, it may return Success, Skip or Error",
				pl.Name(), s.Code()))
		}
	}
	state.SetSkipPreBindPlugins(skipped)
	state.SetParallelPreBindPlugins(parallel)
	return status
}

// RunPreBindPlugins prepares node and pod for the binding. The PreBind plugins run in order, and
// adjacent ones that allow it in parallel; those that skipped in RunPreBindPreFlights do not run.
// The first that refuses or fails ends the context of those that run in parallel with it, and later
// ones do not run. The pod must not be bound unless the status is success.
func (f *Framework) RunPreBindPlugins(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string,
) (status *fwk.Status) {
	defer f.observePoint(schedmetrics.PreBind, time.Now(), &status)
	groups := f.preBindGroups(state)
	if len(groups) == 0 { // so for most pods
		return nil
	}
	logger := newPointLogger(ctx, schedmetrics.PreBind, "node", klog.KRef("", nodeName))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(errPreBindDone)
	ctx = WithPod(ctx, pod)

	for _, group := range groups {
		if len(group) == 1 {
			if s := f.runPreBind(ctx, logger, group[0], state, pod, nodeName); !s.IsSuccess() {
				return s
			}
			continue
		}
		failure := firstFailure{cancel: cancel}
		f.cfg.Parallelizer.Until(ctx, len(group), func(i int) {
			if s := f.runPreBind(ctx, logger, group[i], state, pod, nodeName); !s.IsSuccess() {
				failure.record(s)
			}
		}, schedmetrics.PreBind)
		if s := failure.of(ctx); !s.IsSuccess() {
			return s
		}
	}
	return nil
}

// WithPod returns a context for the PreBind plugins of a pod.
func WithPod(ctx context.Context, pod *corev1.Pod) context.Context {
	return context.WithValue(ctx, podKey{}, pod)
}

// PodOf returns the pod whose PreBind plugins run with a context, nil for other contexts. Requests
// that name a pod only may mean another one by then.
func PodOf(ctx context.Context) *corev1.Pod {
	pod, _ := ctx.Value(podKey{}).(*corev1.Pod)
	return pod
}

// podKey is the key of the pod in a context.
type podKey struct{}

// preBindGroups splits the plugins that did not skip into groups that run one after the other. A
// plugin that does not allow parallel runs separates its neighbours even if it skipped.
func (f *Framework) preBindGroups(state fwk.CycleState) [][]fwk.PreBindPlugin {
	skipped, parallel := state.GetSkipPreBindPlugins(), state.GetParallelPreBindPlugins()
	var groups [][]fwk.PreBindPlugin
	var group []fwk.PreBindPlugin
	finish := func() {
		if len(group) > 0 {
			groups = append(groups, group)
			group = nil
		}
	}
	for _, pl := range f.cfg.Plugins.PreBind {
		if !parallel.Has(pl.Name()) {
			finish()
		}
		if !skipped.Has(pl.Name()) {
			group = append(group, pl)
		}
		if !parallel.Has(pl.Name()) {
			finish()
		}
	}
	finish()
	return groups
}

func (f *Framework) runPreBind(
	ctx context.Context, logger pointLogger, pl fwk.PreBindPlugin, state fwk.CycleState, pod *corev1.Pod,
	nodeName string,
) *fwk.Status {
	ctx = logger.context(ctx, pl.Name())
	status := f.call(ctx, state, schedmetrics.PreBind, pl.Name(), func() *fwk.Status {
		return pl.PreBind(ctx, state, pod, nodeName)
	})
	if status.IsSuccess() {
		return nil
	}
	if status.IsError() && errors.Is(status.AsError(), context.Canceled) {
		// The plugin gave up because its context ended: return the cause.
		status = fwk.AsStatus(context.Cause(ctx))
	}
	return logger.refusedOrFailed(schedmetrics.PreBind, pl.Name(), pod, status)
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/scheduler/timing"
)

// call runs one plugin at one extension point. Every call into a plugin goes through here: a panic
// comes back as an error status, and the run time is recorded if the state asks for it. The
// scheduling cycle learns the run time, too, but of a call for a single node only if the state asks
// for it.
func (f *Framework) call(
	ctx context.Context, state fwk.CycleState, point, plugin string, run func() *fwk.Status,
) (status *fwk.Status) {
	defer func() {
		if value := recover(); value != nil {
			status = fwk.AsStatus(newPanicError(ctx, point, plugin, value))
		}
	}()
	perNode := calledPerNode(point)
	if !perNode {
		defer timing.From(ctx).Start().End(point, plugin)
	}
	if !state.ShouldRecordPluginMetrics() {
		return run()
	}
	start := time.Now()
	status = run()
	took := time.Since(start)
	if f.cfg.Recorder != nil {
		f.cfg.Recorder.ObservePluginDurationAsync(point, plugin, status.Code().String(), took.Seconds())
	}
	if perNode {
		timing.From(ctx).AddCall(plugin, took)
	}
	return status
}

// callFor is call for a plugin that returns a result besides the status.
func callFor[T any](
	ctx context.Context, f *Framework, state fwk.CycleState, point, plugin string, run func() (T, *fwk.Status),
) (result T, status *fwk.Status) {
	status = f.call(ctx, state, point, plugin, func() (s *fwk.Status) {
		result, s = run()
		return s
	})
	return result, status
}

// calledPerNode reports whether a plugin is called more than once for a pod at an extension point,
// in several goroutines.
func calledPerNode(point string) bool {
	switch point {
	case schedmetrics.Filter, schedmetrics.Score, schedmetrics.ScoreExtensionNormalize,
		schedmetrics.PreFilterExtensionAddPod, schedmetrics.PreFilterExtensionRemovePod:
		return true
	}
	return false
}

// observePoint records how long an extension point took for one pod. It is meant to be deferred:
// status is read when the point has returned.
func (f *Framework) observePoint(point string, start time.Time, status **fwk.Status) {
	f.ObservePoint(point, start, (*status).Code())
}

// ObservePoint records how long an extension point took that the caller runs node by node.
func (f *Framework) ObservePoint(point string, start time.Time, code fwk.Code) {
	if f.points != nil {
		f.points.WithLabelValues(point, code.String(), f.cfg.ProfileName).Observe(time.Since(start).Seconds())
	}
}

// failed returns the status of a pod for which a plugin returned neither success nor a refusal.
func failed(point, plugin string, status *fwk.Status) *fwk.Status {
	err := statusError(status)
	var panicked *PanicError
	if !errors.As(err, &panicked) {
		err = failure(point, plugin, err)
	}
	return fwk.AsStatus(err)
}

// failure names the plugin that failed and the step, in kube-scheduler's words: they become the
// message of the pod's condition, which users and tools read.
func failure(point, plugin string, err error) error {
	switch point {
	case schedmetrics.PreFilterExtensionAddPod:
		return fmt.Errorf("running AddPod on PreFilter plugin %q: %w", plugin, err)
	case schedmetrics.PreFilterExtensionRemovePod:
		return fmt.Errorf("running RemovePod on PreFilter plugin %q: %w", plugin, err)
	case schedmetrics.Filter:
		return fmt.Errorf("running %q filter plugin: %w", plugin, err)
	case schedmetrics.Score:
		return fmt.Errorf("running Score plugins: plugin %q failed with: %w", plugin, err)
	case schedmetrics.ScoreExtensionNormalize:
		return fmt.Errorf("running Normalize on Score plugins: plugin %q failed with: %w", plugin, err)
	case schedmetrics.PreBindPreFlight:
		return fmt.Errorf("running PreBindPreFlight %q: %w", plugin, err)
	default:
		return fmt.Errorf("running %s plugin %q: %w", point, plugin, err)
	}
}

// statusError returns the error of a status, even of one that a plugin must not return, such as
// Wait from Filter.
func statusError(status *fwk.Status) error {
	if err := status.AsError(); err != nil {
		return err
	}
	return fmt.Errorf("it returned the status %s, which has no meaning there", status.Code())
}

// pointLogger gives plugins a logger that carries the names of the extension point and the plugin.
// That costs an allocation per plugin and node, so it is done at verbosity 4 and up only, as in
// kube-scheduler.
type pointLogger struct {
	klog.Logger
	verbose bool
}

func newPointLogger(ctx context.Context, point string, keysAndValues ...any) pointLogger {
	l := pointLogger{Logger: klog.FromContext(ctx)}
	if l.verbose = l.V(4).Enabled(); l.verbose {
		l.Logger = klog.LoggerWithValues(klog.LoggerWithName(l.Logger, point), keysAndValues...)
	}
	return l
}

func (l pointLogger) context(ctx context.Context, plugin string) context.Context {
	if !l.verbose {
		return ctx
	}
	return klog.NewContext(ctx, klog.LoggerWithName(l.Logger, plugin))
}

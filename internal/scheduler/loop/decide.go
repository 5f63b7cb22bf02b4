// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"errors"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/scheduler/algorithm"
	"github.com/livesched/livesched/internal/scheduler/failure"
)

// decide runs the algorithm, and the PostFilter plugins (preemption) if no node fits.
func (c *cycle) decide(ctx context.Context) (algorithm.Decision, *fwk.NominatingInfo, *fwk.Status) {
	var shadows time.Duration
	defer func() {
		c.took = c.loop.Clock.Since(c.start) - shadows
		schedmetrics.SchedulingAlgorithmLatency.Observe(c.took.Seconds())
	}()

	extenders, pod := c.profile.Extenders(ctx), c.within.Restrict(c.pod.Pod)
	decision, err := c.loop.Decider.Decide(ctx, algorithm.Params{
		Framework:                c.profile.Framework,
		Extenders:                extenders,
		PercentageOfNodesToScore: c.profile.Config.PercentageOfNodesToScore,
		FastPath:                 c.profile.FastPath(),
	}, c.state, pod)
	shadows = c.compare(ctx, pod, extenders, &decision, err)
	var fitError *schedframework.FitError
	switch {
	case err == nil:
		return decision, nil, nil
	case errors.Is(err, algorithm.ErrNoNodesAvailable):
		return decision, failure.ClearNomination, fwk.NewStatus(fwk.UnschedulableAndUnresolvable).WithError(err)
	case !errors.As(err, &fitError):
		return decision, failure.ClearNomination, fwk.AsStatus(err)
	case c.inGroup:
		return decision, nil, fwk.NewStatus(fwk.Unschedulable).WithError(err)
	case !c.profile.Framework.HasPostFilterPlugins():
		return decision, failure.ClearNomination, fwk.NewStatus(fwk.Unschedulable).WithError(err)
	}
	nominating := c.postFilter(ctx, fitError)
	c.releaseGroupClaims(ctx)
	return decision, nominating, fwk.NewStatus(fwk.Unschedulable).WithError(err)
}

// postFilter runs the PostFilter plugins, which may make room, and adds their message to the error
// that the user sees.
func (c *cycle) postFilter(ctx context.Context, fitError *schedframework.FitError) *fwk.NominatingInfo {
	result, status := c.profile.Framework.RunPostFilterPlugins(ctx, c.state, c.pod.Pod, fitError.Diagnosis.NodeToStatus)
	fitError.Diagnosis.PostFilterMsg = status.Message()
	logPostFilter(ctx, status)
	if result == nil {
		return nil
	}
	return result.NominatingInfo
}

// logPostFilter logs an error of the PostFilter plugins. One that does not find what it keeps in
// the state of the cycle has not failed: another plugin refused the pod in PreFilter, before its
// turn to write it.
func logPostFilter(ctx context.Context, status *fwk.Status) {
	switch err := status.AsError(); {
	case !status.IsError():
	case errors.Is(err, fwk.ErrNotFound):
		klog.FromContext(ctx).V(2).Info("A PostFilter plugin did not run in PreFilter", "plugin", status.Plugin(),
			"reason", err)
	default:
		utilruntime.HandleErrorWithContext(ctx, err, "The PostFilter plugins failed")
	}
}

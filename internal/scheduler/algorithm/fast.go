// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"context"
	"errors"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/fastpath"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/internal/scheduler/timing"
)

// Reasons of this package for which a pod takes the scalar path.
const (
	// byExtender: an extender is interested in the pod.
	byExtender fastpath.Reason = "extender"
	// byNoNodes: there is no node.
	byNoNodes fastpath.Reason = "no_nodes"
)

// scheduleFast decides on the fast path if it can, and on the scalar path otherwise.
func (a *Algorithm) scheduleFast(ctx context.Context, r request) (Decision, error) {
	attempt := a.decideFast(ctx, r)
	if fit, ok := attempt.Fit(); ok {
		if placement, ok := a.take(ctx, fit); ok {
			a.cfg.Engine.Count(metrics.PathFast, placement.Uncached)
			return Decision{Result: resultOf(placement), fit: fit}, nil
		}
	}
	if unfit, ok := attempt.Unfit(); ok {
		if err := a.explain(ctx, r, unfit); err != nil {
			a.cfg.Engine.Count(metrics.PathFast, fastpath.NoFit)
			return Decision{}, err
		}
	} else if err := attempt.Err(); err != nil {
		a.cfg.Engine.Count(metrics.PathFast, attempt.Reason())
		return Decision{}, err
	}
	a.cfg.Engine.Count(metrics.PathScalar, attempt.Reason())
	return a.scheduleAfter(ctx, r, attempt)
}

// scheduleAfter decides on the scalar path after an attempt on the fast path. If the pod fits no
// node, it keeps the explanation for the other pods of the class.
func (a *Algorithm) scheduleAfter(ctx context.Context, r request, attempt fastpath.Attempt) (Decision, error) {
	state := r.state
	r.state = attempt.State()
	decision, err := a.newScalar(r).schedule(ctx)
	if unfit, ok := attempt.Unfit(); ok {
		if kept := keepExplanation(ctx, unfit, r.state, err); kept != (framework.Refusals{}) {
			framework.WriteRefusals(state, &kept)
		}
	}
	return decision, err
}

// reasonForScalarPath returns the reason for which a pod takes the scalar path without trying the
// fast path, or None.
func (a *Algorithm) reasonForScalarPath(r request) fastpath.Reason {
	if a.cfg.Engine.NumNodes() == 0 {
		return byNoNodes
	}
	for _, extender := range r.Extenders {
		if (extender.IsFilter() || extender.IsPrioritizer()) && extender.IsInterested(r.pod) {
			return byExtender
		}
	}
	return fastpath.None
}

// decideFast decides on the fast path.
func (a *Algorithm) decideFast(ctx context.Context, r request) fastpath.Attempt {
	defer timing.From(ctx).Start().End(timing.FastPath, "")
	attempt := a.cfg.Engine.Decide(ctx, fastpath.Request{
		Plan: r.FastPath, State: r.state, Pod: r.pod, Enough: r.numFeasibleNodesToFind(a.cfg.Engine.NumNodes()),
	})
	if logger := klog.FromContext(ctx).V(5); logger.Enabled() {
		logger.Info("Decided on the fast path", "pod", klog.KObj(r.pod), "reason", attempt.Reason(), "examinedNodes", attempt.Examined())
	}
	return attempt
}

// take places the pod on one of the best nodes, if it can be placed there.
func (a *Algorithm) take(ctx context.Context, fit fastpath.Fit) (fastpath.Placement, bool) {
	return fit.Take(ctx, a.draw(fit.Len(), fit.NumPods))
}

func resultOf(p fastpath.Placement) Result {
	return Result{
		SuggestedHost: p.NodeName, EvaluatedNodes: p.Evaluated, FeasibleNodes: p.Feasible, Class: p.Class,
		Total: p.Total, TiedNodes: p.Tied,
	}
}

// explain returns the error for a pod that fits no node. It returns nil if the scalar path must
// find the reasons, which takes long: it does so once for all pods of the class, until something
// changes.
func (a *Algorithm) explain(ctx context.Context, r request, unfit fastpath.Unfit) error {
	if r.Unexplained {
		return &schedframework.FitError{
			Pod: r.pod, NumAllNodes: a.cfg.Engine.NumNodes(),
			Diagnosis: schedframework.Diagnosis{NodeToStatus: schedframework.NewDefaultNodeToStatus()},
		}
	}
	if !unfit.Explained() {
		return nil
	}
	// PostFilter plugins use the state that PreFilter leaves, as Filter plugins do.
	if allowed, status, _ := r.Framework.RunPreFilterPlugins(ctx, r.state, r.pod); !status.IsSuccess() || !allowed.AllNodes() {
		return nil
	}
	known := unfit.Explain(ctx, r.state)
	if known == nil {
		return nil
	}
	framework.WriteRefusals(r.state, &known.Refusals)
	return known
}

// keepExplanation keeps the explanation for a pod that fits no node, which the scalar path has just
// made with this state. It returns the identity of the statuses, or the zero value if nothing was
// kept.
func keepExplanation(ctx context.Context, unfit fastpath.Unfit, state fwk.CycleState, err error) framework.Refusals {
	var fitError *schedframework.FitError
	if !errors.As(err, &fitError) {
		return framework.Refusals{}
	}
	return unfit.Keep(ctx, fitError.Diagnosis, state)
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"context"
	"errors"

	resourcehelper "k8s.io/component-helpers/resource"
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
	// byDeferredResize: the pod is on its node, or claims to be: its resize is deferred.
	byDeferredResize fastpath.Reason = "deferred_resize"
	// byNoNodes: there is no node.
	byNoNodes fastpath.Reason = "no_nodes"
)

// decideFast decides on the fast path if it can, and on the scalar path otherwise.
func (d *Decider) decideFast(ctx context.Context, r request) (Decision, error) {
	draw := d.drawLate
	if r.EveryNode || r.numFeasibleNodesToFind(d.cfg.Engine.NumNodes()) < d.cfg.Engine.NumNodes() {
		draw = nil
	}
	attempt := d.attemptFast(ctx, r, draw)
	if fit, ok := attempt.Fit(); ok {
		if placement, ok := fit.Take(ctx, d.draw(fit.Len(), fit.NumPods)); ok {
			d.cfg.Engine.Count(metrics.PathFast, placement.Uncached)
			return Decision{fit: fit, Result: Result{
				SuggestedHost: placement.NodeName, EvaluatedNodes: placement.Evaluated,
				FeasibleNodes: placement.Feasible, Partial: placement.Partial,
				Class: placement.Class, Total: placement.Total, TiedNodes: placement.Tied,
			}}, nil
		}
	}
	if unfit, ok := attempt.Unfit(); ok {
		if err := d.explain(ctx, r, unfit); err != nil {
			d.cfg.Engine.Count(metrics.PathFast, fastpath.NoFit)
			return Decision{}, err
		}
	} else if err := attempt.Err(); err != nil {
		d.cfg.Engine.Count(metrics.PathFast, attempt.Reason())
		return Decision{}, err
	}
	d.cfg.Engine.Count(metrics.PathScalar, attempt.Reason())
	return d.decideAfter(ctx, r, attempt)
}

// decideAfter decides on the scalar path after an attempt on the fast path. If the pod fits no
// node, it keeps the explanation for the other pods of the class.
func (d *Decider) decideAfter(ctx context.Context, r request, attempt fastpath.Attempt) (Decision, error) {
	state := r.state
	r.state = attempt.State()
	decision, err := d.newScalar(r).decide(ctx)
	if unfit, ok := attempt.Unfit(); ok {
		if kept := keepExplanation(ctx, unfit, r.state, err); kept != (framework.Refusals{}) {
			framework.WriteRefusals(state, &kept)
		}
	}
	return decision, err
}

// reasonForScalarPath returns the reason for which a pod takes the scalar path without trying the
// fast path, or None.
func (d *Decider) reasonForScalarPath(r request) fastpath.Reason {
	if d.cfg.Engine.NumNodes() == 0 {
		return byNoNodes
	}
	if d.cfg.DeferredResizes && resourcehelper.IsPodResizeDeferred(r.pod) {
		return byDeferredResize
	}
	for _, extender := range r.Extenders {
		if (extender.IsFilter() || extender.IsPrioritizer()) && extender.IsInterested(r.pod) {
			return byExtender
		}
	}
	return fastpath.None
}

// attemptFast decides on the fast path. Without draw, it finds all nodes that the pod fits, or as
// many as are enough.
func (d *Decider) attemptFast(ctx context.Context, r request, draw fastpath.Draw) fastpath.Attempt {
	defer timing.From(ctx).Start().End(timing.FastPath, "")
	attempt := d.cfg.Engine.Decide(ctx, fastpath.Request{
		Plan: r.FastPath, State: r.state, Pod: r.pod, Enough: r.numFeasibleNodesToFind(d.cfg.Engine.NumNodes()),
		Draw: draw,
	})
	if logger := klog.FromContext(ctx).V(5); logger.Enabled() {
		logger.Info("Decided on the fast path", "pod", klog.KObj(r.pod), "reason", attempt.Reason(), "examinedNodes",
			attempt.Examined())
	}
	return attempt
}

// explain returns the error for a pod that fits no node. It returns nil if the scalar path must
// find the reasons, which takes long: it does so once for all pods of the class, until something
// changes.
func (d *Decider) explain(ctx context.Context, r request, unfit fastpath.Unfit) error {
	if r.Unexplained {
		return &schedframework.FitError{
			Pod: r.pod, NumAllNodes: d.cfg.Engine.NumNodes(),
			Diagnosis: schedframework.Diagnosis{NodeToStatus: schedframework.NewDefaultNodeToStatus()},
		}
	}
	if !unfit.Explained() {
		return nil
	}
	r.Framework.DeferPreFilter(r.state, r.pod)
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

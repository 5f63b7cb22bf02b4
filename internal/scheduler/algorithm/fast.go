// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
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

// fastPath holds what a Scheduler needs for its fast path.
type fastPath struct {
	engine *fastpath.Engine
	verify bool
	counts decisionCounts
}

// scheduleFast decides on the fast path if it can, and on the scalar path otherwise.
func (s *Scheduler) scheduleFast(ctx context.Context, p Params, state fwk.CycleState, pod *corev1.Pod) (Result, error) {
	attempt := s.decideFast(ctx, p, state, pod)
	if placement, ok := s.take(ctx, attempt); ok {
		s.count(p, metrics.PathFast, placement.Uncached)
		s.placed = placed{host: placement.NodeName, attempt: attempt, fast: true}
		return resultOf(placement), nil
	}
	if unfit, ok := attempt.Unfit(); ok {
		if p.Unexplained {
			s.count(p, metrics.PathFast, fastpath.NoFit)
			return Result{}, unexplained(pod, s.fast.engine.NumNodes())
		}
		return s.scheduleUnfit(ctx, p, attempt, unfit, state, pod)
	}
	if err := attempt.Err(); err != nil {
		s.count(p, metrics.PathFast, attempt.Reason())
		return Result{}, err
	}
	s.count(p, metrics.PathScalar, attempt.Reason())
	return s.newScalar(p, attempt.State(), pod).schedule(ctx)
}

// reasonForScalarPath returns the reason for which a pod takes the scalar path without trying the
// fast path, or None.
func (s *Scheduler) reasonForScalarPath(p Params, pod *corev1.Pod) fastpath.Reason {
	if s.fast.engine.NumNodes() == 0 {
		return byNoNodes
	}
	for _, extender := range p.Extenders {
		if (extender.IsFilter() || extender.IsPrioritizer()) && extender.IsInterested(pod) {
			return byExtender
		}
	}
	return fastpath.None
}

// decideFast decides on the fast path.
func (s *Scheduler) decideFast(ctx context.Context, p Params, state fwk.CycleState, pod *corev1.Pod) fastpath.Attempt {
	defer timing.From(ctx).Start().End(timing.FastPath, "")
	attempt := s.fast.engine.Decide(ctx, fastpath.Request{
		Plan: p.FastPath, State: state, Pod: pod, Enough: p.numFeasibleNodesToFind(s.fast.engine.NumNodes()),
	})
	if logger := klog.FromContext(ctx).V(5); logger.Enabled() {
		logger.Info("Decided on the fast path", "pod", klog.KObj(pod), "reason", attempt.Reason(), "examinedNodes", attempt.Examined())
	}
	return attempt
}

// take places the pod on one of the best nodes, if there are any and it can be placed there.
func (s *Scheduler) take(ctx context.Context, attempt fastpath.Attempt) (fastpath.Placement, bool) {
	fit, ok := attempt.Fit()
	if !ok {
		return fastpath.Placement{}, false
	}
	return fit.Take(ctx, s.draw(fit.Len(), fit.NumPods))
}

func resultOf(p fastpath.Placement) Result {
	return Result{
		SuggestedHost: p.NodeName, EvaluatedNodes: p.Evaluated, FeasibleNodes: p.Feasible, Class: p.Class,
		Total: p.Total, TiedNodes: p.Tied,
	}
}

// scheduleUnfit returns the error for a pod that fits no node. The scalar path makes the
// explanation once for all pods of the class, until something changes.
func (s *Scheduler) scheduleUnfit(
	ctx context.Context, p Params, attempt fastpath.Attempt, unfit fastpath.Unfit, state fwk.CycleState, pod *corev1.Pod,
) (Result, error) {
	if known := s.explain(ctx, p, unfit, state, pod); known != nil {
		framework.WriteRefusals(state, &known.Refusals)
		s.count(p, metrics.PathFast, fastpath.NoFit)
		return Result{}, known
	}
	s.count(p, metrics.PathScalar, fastpath.NoFit)
	used := attempt.State()
	result, err := s.newScalar(p, used, pod).schedule(ctx)
	if kept := keepExplanation(ctx, unfit, used, err); kept != (framework.Refusals{}) {
		framework.WriteRefusals(state, &kept)
	}
	return result, err
}

// unexplained returns the error for a pod that fits no node, without the reasons.
func unexplained(pod *corev1.Pod, nodes int) error {
	return &schedframework.FitError{
		Pod: pod, NumAllNodes: nodes, Diagnosis: schedframework.Diagnosis{NodeToStatus: schedframework.NewDefaultNodeToStatus()},
	}
}

// explain returns the error for a pod that fits no node, or nil if no explanation is known.
func (s *Scheduler) explain(ctx context.Context, p Params, unfit fastpath.Unfit, state fwk.CycleState, pod *corev1.Pod) *fastpath.UnfitError {
	if !unfit.Explained() {
		return nil
	}
	// PostFilter plugins use the state that PreFilter leaves, as Filter plugins do.
	if allowed, status, _ := p.Framework.RunPreFilterPlugins(ctx, state, pod); !status.IsSuccess() || !allowed.AllNodes() {
		return nil
	}
	return unfit.Explain(ctx, state)
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

// count counts a decision of a profile that appears in the metrics.
func (s *Scheduler) count(p Params, path string, reason fastpath.Reason) {
	if p.Framework.Measured() {
		s.fast.counts.count(path, reason)
	}
}

// decisionCounts counts decisions by path and reason. It caches the counters that it has used.
type decisionCounts map[decisionKind]prometheus.Counter

type decisionKind struct {
	path   string
	reason fastpath.Reason
}

func (c *decisionCounts) count(path string, reason fastpath.Reason) {
	if *c == nil {
		*c = decisionCounts{}
	}
	kind := decisionKind{path, reason}
	counter, ok := (*c)[kind]
	if !ok {
		counter = metrics.Decisions.WithLabelValues(path, string(reason))
		(*c)[kind] = counter
	}
	counter.Inc()
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/fastpath"
	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/scheduler/metrics"
)

// Reasons of the algorithm's own for which a pod takes the scalar path.
const (
	// byExtender: an extender has to be asked.
	byExtender fastpath.Reason = "extender"
	// byNoNodes: there is no node.
	byNoNodes fastpath.Reason = "no_nodes"
)

// fastPath is what a Scheduler needs for its fast path.
type fastPath struct {
	rows   *fastpath.Engine
	verify bool
	counts decisionCounts
}

// scheduleFast decides on the fast path if it can, and on the scalar path otherwise.
func (s *Scheduler) scheduleFast(ctx context.Context, p Profile, state fwk.CycleState, pod *corev1.Pod) (Result, error) {
	if s.fast.verify {
		return s.scheduleBoth(ctx, p, state, pod)
	}
	result, reason := s.decideFast(ctx, p, state, pod)
	switch reason {
	case fastpath.None:
		s.fast.counts.count(metrics.PathFast, result.rest)
		return result, nil
	case fastpath.NoFit:
		return s.scheduleUnfit(ctx, p, state, pod)
	case fastpath.Failed:
		if err := s.fast.rows.Failure(); err != nil {
			s.fast.counts.count(metrics.PathFast, reason)
			return Result{}, err
		}
	}
	s.fast.counts.count(metrics.PathScalar, reason)
	return s.newCycle(p, s.fast.rows.State(state), pod).schedule(ctx)
}

// scheduleUnfit says why a pod fits nowhere, which the fast path has just found out. The scalar
// path works that out once for all pods of the class that come before anything changes.
func (s *Scheduler) scheduleUnfit(ctx context.Context, p Profile, state fwk.CycleState, pod *corev1.Pod) (Result, error) {
	if known := s.knownUnfit(ctx, p, state, pod); known != nil {
		framework.WriteRefusals(state, known.Refusals)
		s.fast.counts.count(metrics.PathFast, fastpath.NoFit)
		return Result{}, known
	}
	s.fast.counts.count(metrics.PathScalar, fastpath.NoFit)
	asked := s.fast.rows.State(state)
	result, err := s.newCycle(p, asked, pod).schedule(ctx)
	if kept := s.keepUnfit(ctx, p, asked, pod, err); kept != (framework.Refusals{}) {
		framework.WriteRefusals(state, kept)
	}
	return result, err
}

// knownUnfit returns the error for a pod that fits nowhere, nil if it is not known why.
func (s *Scheduler) knownUnfit(ctx context.Context, p Profile, state fwk.CycleState, pod *corev1.Pod) *fastpath.Unfit {
	if !s.fast.rows.KnowsUnfit() {
		return nil
	}
	// PostFilter plugins go by what PreFilter leaves, as Filter does.
	if allowed, status, _ := p.Framework.RunPreFilterPlugins(ctx, state, pod); !status.IsSuccess() || !allowed.AllNodes() {
		return nil
	}
	return s.fast.rows.Unfit(pod, asker(ctx, p, state, pod))
}

// asker returns what says what the filters say of a node. They need what PreFilter has left in
// state.
func asker(ctx context.Context, p Profile, state fwk.CycleState, pod *corev1.Pod) fastpath.Ask {
	return fastpath.Ask{
		Alone: func(node fwk.NodeInfo) *fwk.Status { return p.Framework.RunFilterPlugins(ctx, state, pod, node) },
		Beside: func(node fwk.NodeInfo) *fwk.Status {
			return p.Framework.RunFilterPluginsWithNominatedPods(ctx, state, pod, node)
		},
	}
}

// keepUnfit keeps what the scalar path, which has left this state, said of a pod that the fast path
// has found to fit nowhere. It returns what identifies the statuses, the zero value if nothing was
// kept.
func (s *Scheduler) keepUnfit(ctx context.Context, p Profile, state fwk.CycleState, pod *corev1.Pod, err error) framework.Refusals {
	var fitError *schedframework.FitError
	if !errors.As(err, &fitError) || !s.fast.rows.SameNominated(p.Framework, pod) {
		return framework.Refusals{}
	}
	return s.fast.rows.KeepUnfit(fitError.Diagnosis, asker(ctx, p, state, pod))
}

// decideFast decides on the fast path, or says why it cannot.
func (s *Scheduler) decideFast(ctx context.Context, p Profile, state fwk.CycleState, pod *corev1.Pod) (Result, fastpath.Reason) {
	engine := s.fast.rows
	nodes := engine.NumNodes()
	if nodes == 0 {
		return Result{}, byNoNodes
	}
	for _, extender := range p.Extenders {
		if (extender.IsFilter() || extender.IsPrioritizer()) && extender.IsInterested(pod) {
			return Result{}, byExtender
		}
	}
	decision, reason := engine.Decide(ctx, fastpath.Request{
		Plan: p.FastPath, State: state, Pod: pod, Enough: p.numFeasibleNodesToFind(nodes),
	})
	if reason != fastpath.None {
		return Result{}, reason
	}
	best := decision.Best.At(s.draw(decision.Best.Len(), func(i int) int { return engine.NumPods(decision.Best.At(i)) }))
	if reason := engine.Settle(ctx, best, pod); reason != fastpath.None {
		return Result{}, reason
	}
	return Result{
		SuggestedHost: engine.NodeName(best), EvaluatedNodes: decision.Evaluated, FeasibleNodes: decision.Feasible, Class: decision.Class,
		rest: decision.Rest,
	}, fastpath.None
}

// scheduleBoth decides on both paths and compares them. The scalar path's decision counts. Both
// look at all nodes, whatever the percentage: of two searches that end early each may find other
// nodes.
func (s *Scheduler) scheduleBoth(ctx context.Context, p Profile, state fwk.CycleState, pod *corev1.Pod) (Result, error) {
	all := p
	all.PercentageOfNodesToScore = 100
	fast, reason := s.decideFast(ctx, all, schedframework.NewCycleState(), pod)
	if reason == fastpath.None {
		s.fast.counts.count(metrics.PathFast, fast.rest)
		p = all
	} else {
		s.fast.counts.count(metrics.PathScalar, reason)
	}
	scalar := s.newCycle(p, state, pod)
	result, err := scalar.schedule(ctx)
	var difference error
	switch {
	case ctx.Err() != nil || !s.fast.rows.SameNominated(p.Framework, pod):
		return result, err
	case reason == fastpath.NoFit:
		difference = s.compareUnfit(ctx, scalar, err)
		s.keepUnfit(ctx, p, state, pod, err)
	case reason != fastpath.None:
		return result, err
	case err != nil:
		difference = err
	default:
		difference = s.compare(ctx, scalar)
		result.Class = fast.Class
	}
	if difference != nil {
		metrics.FastPathDifferences.Inc()
		klog.FromContext(ctx).Error(difference, "The fast path came to another decision than the scalar path", "pod", klog.KObj(pod),
			"fast", fast.SuggestedHost, "scalar", result.SuggestedHost)
	}
	return result, err
}

// compare returns an error if what the fast path has just come to is not what the scalar path did:
// the same nodes, with the same totals, so that the same ones are best.
func (s *Scheduler) compare(ctx context.Context, scalar *cycle) error {
	slots, totals := s.fast.rows.Totals(ctx, scalar.pod)
	if len(slots) != len(scalar.feasible) {
		return fmt.Errorf("%d nodes fit on the fast path, %d on the scalar path", len(slots), len(scalar.feasible))
	}
	byName := make(map[string]int64, len(slots))
	for i, slot := range slots {
		var total int64
		if totals != nil {
			total = totals[i]
		}
		byName[s.fast.rows.NodeName(slot)] = total
	}
	for i, node := range scalar.feasible {
		name := node.Node().Name
		total, ok := byName[name]
		switch {
		case !ok:
			return fmt.Errorf("node %q fits on the scalar path only", name)
		case scalar.scores != nil && scalar.scores[i].TotalScore != total:
			return fmt.Errorf("node %q has a total of %d on the fast path, %d on the scalar path", name, total, scalar.scores[i].TotalScore)
		}
	}
	return s.compareBest(scalar.best())
}

// compareUnfit returns an error if what is known of why the last pod fits nowhere is not what the
// scalar path says.
func (s *Scheduler) compareUnfit(ctx context.Context, scalar *cycle, err error) error {
	var want *schedframework.FitError
	switch {
	case err == nil:
		return errors.New("no node fits on the fast path, some do on the scalar path")
	case !errors.As(err, &want):
		return err
	}
	known := s.fast.rows.Unfit(want.Pod, asker(ctx, scalar.profile, scalar.state, scalar.pod))
	switch {
	case known == nil:
	case known.Error() != want.Error():
		return fmt.Errorf("it is known that %w, the scalar path says that %w", known, want)
	case !known.Diagnosis.UnschedulablePlugins.Equal(want.Diagnosis.UnschedulablePlugins):
		return fmt.Errorf("it is known that %v refuse, on the scalar path %v do",
			sets.List(known.Diagnosis.UnschedulablePlugins), sets.List(want.Diagnosis.UnschedulablePlugins))
	default:
		return compareRefusals(known.Diagnosis.NodeToStatus, want.Diagnosis.NodeToStatus)
	}
	return nil
}

// compareRefusals returns an error if nodes are known to refuse a pod otherwise than the scalar
// path says.
func compareRefusals(known, want *schedframework.NodeToStatus) (err error) {
	if known.Len() != want.Len() {
		return fmt.Errorf("it is known of %d nodes why they refuse, on the scalar path of %d", known.Len(), want.Len())
	}
	want.ForEachExplicitNode(func(name string, status *fwk.Status) {
		if got := known.Get(name); got.Code() != status.Code() || got.Plugin() != status.Plugin() || got.Message() != status.Message() {
			err = fmt.Errorf("it is known that node %q refuses with %v, on the scalar path with %v", name, got, status)
		}
	})
	return err
}

// compareBest returns an error if the best nodes of the last decision on the fast path are not
// these.
func (s *Scheduler) compareBest(want sets.Set[string]) error {
	got := sets.New[string]()
	best := s.fast.rows.Best()
	for slot := range best.All() {
		got.Insert(s.fast.rows.NodeName(slot))
	}
	if best.Len() != len(want) || !got.Equal(want) {
		return fmt.Errorf("the best nodes are %v on the fast path, %v on the scalar path", sets.List(got), sets.List(want))
	}
	return nil
}

// best returns the names of the nodes that the decision was between in the end.
func (c *cycle) best() sets.Set[string] {
	best := sets.New[string]()
	if c.scores == nil {
		return best.Insert(c.feasible[0].Node().Name)
	}
	highest := c.scores[0].TotalScore
	for _, node := range c.scores {
		highest = max(highest, node.TotalScore)
	}
	for _, node := range c.scores {
		if node.TotalScore == highest {
			best.Insert(node.Name)
		}
	}
	return best
}

// decisionCounts counts decisions by path and reason. It keeps the counters that it has used.
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

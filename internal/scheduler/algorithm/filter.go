// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/scheduler/timing"
)

// The causes with which the context of Filter plugins ends.
var (
	errEnoughNodes = errors.New("enough nodes that fit were found")
	errFilterError = errors.New("a filter failed on another node")
	errFilterDone  = errors.New("filtering is done")
)

// findNodesThatFit returns the nodes that the pod fits. It records the reasons of the other
// evaluated nodes in c.diagnosis. If it returns an error, it is unknown which nodes the pod fits.
func (s *scalarAttempt) findNodesThatFit(ctx context.Context) ([]fwk.NodeInfo, error) {
	s.diagnosis.NodeToStatus = schedframework.NewDefaultNodeToStatus()
	allowed, status, restricting := s.Framework.RunPreFilterPlugins(ctx, s.state, s.pod)
	s.diagnosis.UnschedulablePlugins = restricting
	if !status.IsSuccess() {
		if !status.IsRejected() {
			return nil, status.AsError()
		}
		s.refusedByPreFilter(ctx, status)
		return nil, nil
	}
	ownNode := ""
	if s.cfg.DeferredResizes {
		ownNode = s.pod.Spec.NodeName
	}
	if s.pod.Status.NominatedNodeName != "" && ownNode == "" {
		if feasible := s.evaluateNominatedNode(ctx); len(feasible) > 0 {
			s.partial = len(s.allNodes) > 1
			return feasible, nil
		}
	}

	nodes := s.allNodes
	if ownNode != "" { // as NodeName has it, which a profile may lack
		allowed = allowed.Merge(&fwk.PreFilterResult{NodeNames: sets.New(ownNode)})
	}
	if !allowed.AllNodes() {
		nodes = s.existing(allowed.NodeNames)
		s.diagnosis.NodeToStatus.SetAbsentNodesStatus(fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
			fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(restricting))))
	}
	feasible, err := s.findNodesThatPassFilters(ctx, nodes)
	// Advance after an error, too, so that all nodes are evaluated in turn.
	s.next = (s.next + len(feasible) + s.diagnosis.NodeToStatus.Len()) % len(s.allNodes)
	if err != nil {
		return nil, err
	}
	s.partial = len(feasible)+s.diagnosis.NodeToStatus.Len() < len(nodes)
	passed, err := s.findNodesThatPassExtenders(ctx, feasible)
	if err != nil {
		return nil, err
	}
	if len(passed) != len(feasible) {
		// Extenders register no events. Record them under a name of their own, for which every
		// event counts.
		s.diagnosis.UnschedulablePlugins.Insert(schedframework.ExtenderName)
	}
	return passed, nil
}

// refusedByPreFilter records a refusal that applies to all nodes.
func (s *scalarAttempt) refusedByPreFilter(ctx context.Context, status *fwk.Status) {
	s.diagnosis.NodeToStatus.SetAbsentNodesStatus(status)
	s.diagnosis.PreFilterMsg = status.Message()
	s.diagnosis.AddPluginStatus(status)
	klog.FromContext(ctx).V(5).Info("PreFilter refused the pod", "pod", klog.KObj(s.pod), "status", status.Message())
}

// existing returns the nodes with these names. PreFilter plugins may name nodes that no longer
// exist.
func (s *scalarAttempt) existing(names sets.Set[string]) []fwk.NodeInfo {
	nodes := make([]fwk.NodeInfo, 0, len(names))
	for _, name := range sets.List(names) {
		if node, err := s.cfg.Snapshot.NodeInfos().Get(name); err == nil {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// evaluateNominatedNode evaluates the node that an earlier scheduling cycle nominated: after a
// preemption it is likely the only one that fits. If this fails, the pod only loses the shortcut.
func (s *scalarAttempt) evaluateNominatedNode(ctx context.Context) []fwk.NodeInfo {
	feasible, err := s.filterNominatedNode(ctx)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Evaluation failed on nominated node",
			"pod", klog.KObj(s.pod), "node", klog.KRef("", s.pod.Status.NominatedNodeName))
		return nil
	}
	return feasible
}

func (s *scalarAttempt) filterNominatedNode(ctx context.Context) ([]fwk.NodeInfo, error) {
	node, err := s.cfg.Snapshot.NodeInfos().Get(s.pod.Status.NominatedNodeName)
	if err != nil {
		return nil, err
	}
	feasible, err := s.findNodesThatPassFilters(ctx, []fwk.NodeInfo{node})
	if err != nil {
		return nil, err
	}
	return s.findNodesThatPassExtenders(ctx, feasible)
}

// findNodesThatPassFilters runs the Filter plugins on the nodes, in parallel and starting where the
// last cycle stopped, until enough of them fit. It records the nodes that do not fit in the
// diagnosis.
func (s *scalarAttempt) findNodesThatPassFilters(ctx context.Context, nodes []fwk.NodeInfo) ([]fwk.NodeInfo, error) {
	if len(nodes) == 0 {
		return nil, nil
	}
	search := filtering{scalarAttempt: s, nodes: nodes, wanted: int32(s.numFeasibleNodesToFind(len(nodes)))}
	search.feasible = make([]fwk.NodeInfo, search.wanted)
	if s.cfg.Reproducible {
		search.passed = make([]bool, len(nodes))
	}
	if !s.Framework.HasFilterPlugins() {
		for i := range search.feasible {
			search.feasible[i] = search.node(i)
		}
		return search.feasible, nil
	}
	return search.run(ctx)
}

// filtering is one search for nodes that fit. The searching goroutines share the fields from
// feasible on.
type filtering struct {
	*scalarAttempt
	nodes  []fwk.NodeInfo
	wanted int32
	cancel context.CancelCauseFunc

	feasible []fwk.NodeInfo // written at the positions that found hands out
	found    atomic.Int32
	refused  []*fwk.Status // by position in the search; each element is written by one goroutine
	failure  atomic.Pointer[fwk.Status]
	// passed is nil unless the search is reproducible: then it replaces found, by position in the
	// search, and each element is written by one goroutine.
	passed []bool
}

// node returns the node at a position in the search.
func (f *filtering) node(i int) fwk.NodeInfo {
	return f.nodes[(f.next+i)%len(f.nodes)]
}

func (f *filtering) run(ctx context.Context) ([]fwk.NodeInfo, error) {
	defer timing.From(ctx).Start().End(schedmetrics.Filter, "")
	// Measure here rather than in the framework, which is called for each node: the metric covers
	// all nodes, including the pods nominated to them.
	start, code := time.Now(), fwk.Success
	defer func() { f.Framework.ObservePoint(schedmetrics.Filter, start, code) }()

	f.refused = make([]*fwk.Status, len(f.nodes))
	searchCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(errFilterDone)
	f.cancel = cancel
	f.Framework.Parallelizer().Until(searchCtx, len(f.nodes), func(i int) {
		f.check(searchCtx, i)
	}, schedmetrics.Filter)

	f.recordRefusals()
	f.takePassed()
	feasible := f.feasible[:f.found.Load()]
	if failure := f.failure.Load(); failure != nil {
		code = fwk.Error
		return feasible, failure.AsError()
	}
	if ctx.Err() != nil {
		// The search was ended from outside: nodes that were not evaluated do not count as unfit.
		code = fwk.Error
		return feasible, context.Cause(ctx)
	}
	return feasible, nil
}

// takePassed takes the first nodes that fit, in the order of the search.
func (f *filtering) takePassed() {
	for i, passed := range f.passed {
		if found := f.found.Load(); passed && found < f.wanted {
			f.feasible[found] = f.node(i)
			f.found.Add(1)
		}
	}
}

// recordRefusals moves the refusals to the diagnosis.
func (f *filtering) recordRefusals() {
	refused := 0
	for _, status := range f.refused {
		if status != nil {
			refused++
		}
	}
	if known := f.diagnosis.NodeToStatus; known.Len() == 0 {
		// A map that grows to thousands of nodes costs more than the filters of some.
		f.diagnosis.NodeToStatus = schedframework.NewNodeToStatus(
			make(map[string]*fwk.Status, refused), known.AbsentNodesStatus())
	}
	for i, status := range f.refused {
		if status != nil {
			f.diagnosis.NodeToStatus.Set(f.node(i).Node().Name, status)
			f.diagnosis.AddPluginStatus(status)
		}
	}
}

// check runs the plugins on one node.
func (f *filtering) check(ctx context.Context, i int) {
	node := f.node(i)
	status := f.Framework.RunFilterPluginsWithNominatedPods(ctx, f.state, f.pod, node)
	switch {
	case status.IsSuccess() && f.passed != nil:
		f.passed[i] = true
	case status.IsSuccess():
		// As in kube-scheduler, the search ends at the first node beyond the wanted number, so that
		// both evaluate the same nodes.
		if position := f.found.Add(1); position <= f.wanted {
			f.feasible[position-1] = node
		} else {
			f.found.Add(-1)
			f.cancel(errEnoughNodes)
		}
	case status.IsError():
		if f.failure.CompareAndSwap(nil, status) {
			f.cancel(errFilterError)
		}
	default:
		f.refused[i] = status
	}
}

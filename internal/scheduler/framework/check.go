// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

// Check finds all plugins that refuse a pod on a node. A decision stops at the first one, and at
// the first plugin whose PreFilter refuses the pod altogether; a Check does not. It decides
// nothing: the pod fits on a node that no plugin refuses, as in a decision.
//
// Node may be called by any number of goroutines.
type Check struct {
	framework *Framework
	state     fwk.CycleState
	pod       *corev1.Pod
	// everywhere are the refusals of PreFilter plugins. They apply to all nodes.
	everywhere []*fwk.Status
	// allowed are the nodes that PreFilter plugins have named, each with the refusal of the others.
	allowed []allowedNodes
}

type allowedNodes struct {
	names   sets.Set[string]
	refusal *fwk.Status
}

// NewCheck runs all PreFilter plugins. state must be new. A plugin whose PreFilter refuses the pod
// is not called for nodes. An error means that a plugin has failed.
func (f *Framework) NewCheck(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) (c *Check, err error) {
	var status *fwk.Status
	defer f.observePoint(schedmetrics.PreFilter, time.Now(), &status)
	nodes, err := f.cfg.Snapshot.NodeInfos().List()
	if err != nil {
		return nil, fmt.Errorf("listing the nodes for PreFilter: %w", err)
	}
	c = &Check{framework: f, state: state, pod: pod}
	skipped := sets.New[string]()
	defer state.SetSkipFilterPlugins(skipped)
	logger := newPointLogger(ctx, schedmetrics.PreFilter)
	for _, pl := range f.preFilter {
		var own *fwk.PreFilterResult
		own, status = f.runPreFilter(logger.context(ctx, pl.name), pl, state, pod, nodes)
		switch {
		case status.IsSkip():
			skipped.Insert(pl.name)
		case status.IsRejected():
			skipped.Insert(pl.name)
			c.everywhere = append(c.everywhere, status.WithPlugin(pl.name))
		case !status.IsSuccess():
			return nil, failed(schedmetrics.PreFilter, pl.name, status).AsError()
		case !own.AllNodes():
			c.allowed = append(c.allowed, allowedNodes{
				names: own.NodeNames, refusal: noNodeSatisfies(sets.New(pl.name)).WithPlugin(pl.name),
			})
		}
	}
	return c, nil
}

// Everywhere returns the refusals that apply to all nodes.
func (c *Check) Everywhere() []*fwk.Status { return c.everywhere }

// Node returns the refusals of the pod on a node, at most one of each plugin, each with the
// plugin's name. Those of PreFilter come first. Like a decision, it takes the pods into account
// that are nominated for the node.
func (c *Check) Node(ctx context.Context, node fwk.NodeInfo) ([]*fwk.Status, error) {
	refusals := slices.Clone(c.everywhere)
	for _, allowed := range c.allowed {
		if !allowed.names.Has(node.Node().Name) {
			refusals = append(refusals, allowed.refusal)
		}
	}
	withNominated, withState, status := c.framework.addNominatedPods(ctx, c.state, c.pod, node)
	if !status.IsSuccess() {
		return nil, status.AsError()
	}
	var err error
	if withNominated != nil {
		if refusals, err = c.filters(ctx, refusals, withState, withNominated); err != nil {
			return nil, err
		}
	}
	return c.filters(ctx, refusals, c.state, node)
}

// filters appends the refusals of Filter plugins that have not refused the pod yet.
func (c *Check) filters(ctx context.Context, refusals []*fwk.Status, state fwk.CycleState,
	node fwk.NodeInfo) ([]*fwk.Status, error) {
	logger := newPointLogger(ctx, schedmetrics.Filter)
	skipped := state.GetSkipFilterPlugins()
	for i := range c.framework.filter {
		pl := &c.framework.filter[i]
		if skipped.Has(pl.name) {
			continue
		}
		status := c.framework.runFilter(logger.context(ctx, pl.name), pl, state, c.pod, node)
		switch {
		case status.IsSuccess():
		case !status.IsRejected():
			return nil, failed(schedmetrics.Filter, pl.name, status).AsError()
		case !refusedBy(refusals, pl.name):
			refusals = append(refusals, status.WithPlugin(pl.name))
		}
	}
	return refusals, nil
}

func refusedBy(refusals []*fwk.Status, plugin string) bool {
	return slices.ContainsFunc(refusals, func(s *fwk.Status) bool { return s.Plugin() == plugin })
}

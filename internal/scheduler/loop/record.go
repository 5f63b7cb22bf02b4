// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/algorithm"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
)

// record adds the decision to the log, and to some decisions the scores of the best nodes. It
// changes nothing that this or a later decision depends on.
func (c *cycle) record(ctx context.Context, result *algorithm.Result, status *fwk.Status) {
	if c.loop.Decisions == nil {
		return
	}
	d := decisionlog.Decision{
		Pod: c.pod.Pod.UID, Time: c.start, Attempt: c.pod.Attempts,
		Profile: c.profile.Config.Name, Revision: c.profile.Config.Revision,
		Snapshot: c.loop.Snapshot.Changes(), Nominated: c.nominated, Domain: c.within, Class: result.Class.ID,
		Nodes: c.loop.Snapshot.NumNodes(), Evaluated: result.EvaluatedNodes, Feasible: result.FeasibleNodes,
		Node: result.SuggestedHost, Total: result.Total, Tied: result.TiedNodes,
		Result: resultOf(status),
	}
	c.decision = c.loop.Decisions.Append(&d)
	if !status.IsSuccess() || !c.loop.Decisions.Wants(&d) {
		return
	}
	start := c.loop.Clock.Now()
	top, err := c.loop.Algorithm.Top(ctx, decisionlog.TopNodes)
	if err != nil {
		klog.FromContext(ctx).V(2).Info("The scores of a decision are not recorded", "err", err)
	}
	end := c.loop.Clock.Now()
	c.loop.Decisions.SetTop(c.decision, top, end, end.Sub(start))
}

// resultOf returns the result of a decision with a status.
func resultOf(status *fwk.Status) decisionlog.Result {
	switch {
	case status.IsSuccess():
		return decisionlog.Binding
	case status.IsRejected():
		return decisionlog.Unschedulable
	}
	return decisionlog.Failed
}

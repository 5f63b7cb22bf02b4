// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"time"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/algorithm"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// record adds the decision to the log, and to some decisions the scores of the best nodes. It
// changes nothing that this or a later decision depends on.
func (c *cycle) record(ctx context.Context, decision *algorithm.Decision, status *fwk.Status) {
	if c.loop.Decisions == nil {
		return
	}
	pod := c.pod.Pod
	d := decisionlog.Decision{
		Pod: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Group: podgroup.KeyOf(pod).Name, Time: c.start,
		Attempt: c.pod.Attempts,
		Profile: c.profile.Config.Name, Revision: c.profile.Config.Revision,
		Changes: c.loop.Snapshot.Changes(), Placed: c.loop.Snapshot.Placed(), Nominated: c.nominated, Domain: c.within,
		Class: decision.Class.ID,
		Nodes: c.loop.Snapshot.NumNodes(), Evaluated: decision.EvaluatedNodes, Feasible: decision.FeasibleNodes,
		Partial: decision.Partial,
		Node:    decision.SuggestedHost, Total: decision.Total, Tied: decision.TiedNodes,
		Result: resultOf(status),
	}
	c.decision = c.loop.Decisions.Append(&d)
	if !status.IsSuccess() || !c.loop.Decisions.Wants(&d) {
		return
	}
	start := c.loop.Clock.Now()
	top, err := decision.Top(ctx, decisionlog.TopNodes)
	if err != nil {
		klog.FromContext(ctx).V(2).Info("The scores of a decision are not recorded", "err", err)
	}
	end := c.loop.Clock.Now()
	c.loop.Decisions.SetTop(c.decision, top, end, end.Sub(start))
}

// record adds the attempt to the log if it failed before a member was tried. fail adds the message.
func (g *groupCycle) record(began time.Time) {
	if g.loop.Decisions.Newest() >= g.first {
		return
	}
	d := decisionlog.Decision{
		Namespace: g.Group.Namespace, Group: g.Group.Name, Time: began,
		Profile: g.Profile.Config.Name, Revision: g.Profile.Config.Revision,
		Changes: g.loop.Snapshot.Changes(), Nodes: g.loop.Snapshot.NumNodes(), Result: decisionlog.Unschedulable,
	}
	if g.Why.Err != nil {
		d.Result = decisionlog.Failed
	}
	for _, m := range g.members {
		d.Attempt = max(d.Attempt, m.pod.Attempts)
	}
	g.decision = g.loop.Decisions.Append(&d)
}

// explain adds to the decisions of an attempt that failed why it did, in all domains. Members that
// have their own reason get that from their failed cycle.
func (g *groupCycle) explain() {
	g.loop.Decisions.ExplainFrom(g.first, g.Why.Message)
	if g.decision != 0 {
		g.loop.Decisions.Explain(g.decision, g.Why.Of(g.members[0].pod.Pod).Message())
	}
}

// explainOtherDomains adds a message to the decisions in domains that were tried before the group
// was placed.
func (g *groupCycle) explainOtherDomains() {
	if n := g.loop.Decisions.Newest(); n >= g.first+decisionlog.Number(len(g.members)) {
		g.loop.Decisions.ExplainFrom(g.first, g.Group.WithKind()+": too few pods fit in this domain")
	}
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

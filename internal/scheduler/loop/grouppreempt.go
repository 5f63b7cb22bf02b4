// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"fmt"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/failure"
	"github.com/livesched/livesched/internal/scheduler/gang"
)

// preempt makes room for a group that has got no nodes, if pods of a lower priority take it: it
// begins to evict them, and nominates the members for the nodes that they would get. The group is
// tried again when the victims are gone; until then it evicts nobody else. If the group would not
// fit without them either, no pod is evicted.
func (g *groupCycle) preempt(ctx context.Context) {
	if g.Group.Problem != "" || g.Why.Err != nil {
		return
	}
	for _, m := range g.members {
		m.trial, m.decision = true, 0
	}
	switch plan, message, err := g.try(ctx); {
	case err != nil:
		g.Why.Message += fmt.Sprintf("; preemption: %v", err)
	case message != "":
		g.Why.Message += "; " + message
	case plan == nil:
		for _, m := range g.members {
			if m.pod.Pod.Status.NominatedNodeName != "" {
				m.nominating = failure.ClearNomination
			}
		}
	case plan.Trial.Empty():
		g.retry = true // other draws among nodes of equal score have let it fit
	default:
		g.nominate(plan.Nodes)
		g.Why.Message += fmt.Sprintf("; preemption: evicting %d pods", plan.Trial.Preempt(plan.Preemptor))
	}
}

// try looks for victims. What it does to the cache is not a change on which decisions depend.
func (g *groupCycle) try(ctx context.Context) (*gang.Plan, string, error) {
	g.loop.Cache.BeginTrial()
	defer g.loop.Cache.EndTrial()
	return g.Preempt(ctx)
}

// nominate nominates the members for nodes, those that have one.
func (g *groupCycle) nominate(nodes []string) {
	for i, m := range g.members {
		if nodes[i] != "" {
			m.nominating = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: nodes[i]}
		}
	}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/failure"
	"github.com/livesched/livesched/internal/scheduler/preemption"
)

// makeRoom lets a group that has got no nodes preempt others, or else keep room, as far as it may.
func (g *groupCycle) makeRoom(ctx context.Context) {
	if g.Group.Problem != "" || g.Why.Err != nil {
		g.clearNominations()
		return
	}
	if g.Unfinished { // it may fit without evictions in a domain that was not tried
		g.retry = true
		return
	}
	g.releaseClaims(ctx) // before trials
	for _, m := range g.members {
		m.trial, m.recorded, m.decision = true, m.decision, 0
	}
	if g.preempt(ctx) {
		return
	}
	g.clearNominations()
	g.reserve(ctx)
}

// luckPause is how long a group waits that may fit with other draws among nodes of equal score.
const luckPause = 10 * time.Second

// tryLater lets the group be tried again after a time.
func (g *groupCycle) tryLater(after time.Duration) {
	g.Why.Message += fmt.Sprintf("; trying again in %v", after)
	g.retryAfter = after
}

// clearNominations lets the members be given back without the nodes that they are nominated for.
func (g *groupCycle) clearNominations() {
	for _, m := range g.members {
		// The status may not have the nomination yet.
		pod := m.pod.Pod
		if pod.Status.NominatedNodeName != "" || m.nominatedTo != "" || g.loop.Queue.Nominator().NodeOf(pod.UID) != "" {
			m.nominating = failure.ClearNomination
		}
	}
}

// takeNominations is takeNomination for all members.
func (g *groupCycle) takeNominations() {
	for _, m := range g.members {
		m.takeNomination()
	}
}

// preempt makes room for the group, if pods of a lower priority take it: it begins to evict them,
// and nominates the members for the nodes that they would get. The group is tried again when the
// victims are gone; until then it evicts no other pods. If the group would not fit without them
// either, no pod is evicted. preempt returns false if the group has nothing to wait for.
func (g *groupCycle) preempt(ctx context.Context) bool {
	switch plan, message, err := g.Preempt(ctx); {
	case err != nil:
		g.Why.Message += fmt.Sprintf("; preemption: %v", err)
		return false
	case message != "":
		g.Why.Message += "; " + message
		return message == preemption.VictimsTerminating
	case plan == nil:
		return false
	case plan.Trial.Empty() && g.Ordered:
		// It did not fit in the order that the last attempt found. At once, it would be tried for
		// ever, and nothing else.
		g.tryLater(luckPause)
	case plan.Trial.Empty():
		g.retry = true // the next attempt begins in the domain where it fits, in the order in which it does
	default:
		g.nominate(plan.Nodes)
		g.Why.Message += fmt.Sprintf("; preemption: evicting %d pods", plan.Trial.Preempt(plan.Preemptor))
	}
	return true
}

// nominated returns the nodes that members are nominated for.
func (g *groupCycle) nominated() sets.Set[string] {
	nodes, nominator := sets.New[string](), g.loop.Queue.Nominator()
	if nominator.Empty() {
		return nodes
	}
	for _, m := range g.members {
		if node := nominator.NodeOf(m.pod.Pod.UID); node != "" {
			nodes.Insert(node)
		}
	}
	return nodes
}

// nominate nominates the members for nodes, those that have one.
func (g *groupCycle) nominate(nodes []string) {
	for i, m := range g.members {
		if nodes[i] != "" {
			m.nominating = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: nodes[i]}
		}
	}
}

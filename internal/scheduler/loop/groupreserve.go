// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// reserve keeps room for a group that has waited for long, if its policy asks for that: it
// nominates the members for nodes that have room for them once other pods have ended. So pods of
// their priority and below, which may come one after the other for ever, leave the room that
// becomes free there to the group.
//
// The time since the first attempt is divided into turns: in every other one, the group keeps room,
// and in those between, it does not. So it cannot starve other pods, and nothing has to be
// remembered. At the end of a turn the group is tried again.
func (g *groupCycle) reserve(ctx context.Context) {
	after := g.Profile.Config.PodGroupReserveAfter
	if after == 0 {
		return
	}
	since := g.waitingSince()
	turn := g.loop.Clock.Since(since) / after
	until := since.Add((turn + 1) * after)
	g.loop.Queue.RetryGroupAt(g.Group.Key, until)
	if turn%2 == 0 || g.othersKeepRoom() {
		return
	}
	nodes := g.Reserve(ctx, g.endNominations())
	if nodes == nil {
		return
	}
	g.nominate(nodes)
	on := sets.New(nodes...).Delete("").Len()
	g.Why.Message += fmt.Sprintf("; room on %d nodes is kept for them until %s", on, until.UTC().Format(time.RFC3339))
}

// waitingSince returns when a member was tried for the first time.
func (g *groupCycle) waitingSince() time.Time {
	first := g.members[0].start
	for _, m := range g.members {
		if at := m.pod.InitialAttemptTimestamp; at != nil && at.Before(first) {
			first = *at
		}
	}
	return first
}

// endNominations ends the nominations of the members, and returns their nodes. The members are
// given back with new ones, or none.
func (g *groupCycle) endNominations() sets.Set[string] {
	nodes, nominator := sets.New[string](), g.loop.Queue.Nominator()
	for _, m := range g.members {
		if node := nominator.NodeOf(m.pod.Pod.UID); node != "" {
			nodes.Insert(node)
			nominator.DeleteNominatedPodIfExists(m.pod.Pod)
		}
	}
	return nodes
}

// othersKeepRoom reports whether pods of another group are nominated that are as important: each
// of two groups might keep what the other one needs.
func (g *groupCycle) othersKeepRoom() bool {
	priority := corev1helpers.PodPriority(g.members[0].pod.Pod)
	for _, nomination := range g.loop.Queue.Nominator().Dump() {
		key := podgroup.KeyOf(nomination.Pod)
		if key != (podgroup.Key{}) && key != g.Group.Key && corev1helpers.PodPriority(nomination.Pod) >= priority {
			return true
		}
	}
	return false
}

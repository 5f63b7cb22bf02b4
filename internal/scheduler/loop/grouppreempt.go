// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/failure"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
	"github.com/livesched/livesched/internal/scheduler/preemption"
)

// preempt makes room for a group that has got no nodes, if pods of a lower priority take it: it
// begins to evict them, and nominates the members for the nodes that they would get. The group is
// tried again when the victims are gone; until then it evicts nobody else. If the group would not
// fit without them either, no pod is evicted.
func (g *groupCycle) preempt(ctx context.Context) {
	if len(g.members) == 0 || g.group.Problem != "" || g.why.err != nil {
		return
	}
	plugin := g.members[0].profile.Preemption()
	if plugin == nil {
		return
	}
	// Members that were taken back are still in the snapshot.
	if err := g.members[0].updateSnapshot(ctx); err != nil {
		return // it was repaired, and the group is tried again
	}
	pods := make([]*corev1.Pod, len(g.members))
	for i, m := range g.members {
		pods[i] = m.pod.Pod
	}
	if ok, message := plugin.GroupMayPreempt(ctx, pods); !ok {
		g.why.message += "; " + message
		return
	}
	switch plan, err := g.chooseVictims(ctx, plugin); {
	case err != nil:
		g.why.message += fmt.Sprintf("; preemption: %v", err)
	case plan != nil && plan.trial.Empty():
		g.retry = true // other draws among nodes of equal score have let it fit
	case plan != nil:
		g.nominate(plan.nodes)
		g.why.message += fmt.Sprintf("; preemption: evicting %d pods", plan.trial.Preempt(plan.preemptor))
	default:
		for _, m := range g.members {
			if m.pod.Pod.Status.NominatedNodeName != "" {
				m.nominating = failure.ClearNomination
			}
		}
	}
}

// groupPlan is how a group gets nodes after evictions.
type groupPlan struct {
	trial   *preemption.GroupTrial
	members []*member
	// nodes are those of the members, "" for members without one.
	nodes []string
}

// preemptor returns a member that gets a node, or another one if none does, and its node.
func (p *groupPlan) preemptor(node string) (*corev1.Pod, string) {
	i := slices.Index(p.nodes, node)
	if i < 0 {
		i = slices.IndexFunc(p.nodes, func(node string) bool { return node != "" })
	}
	return p.members[i].pod.Pod, p.nodes[i]
}

// chooseVictims returns how the group gets nodes after evictions, nil if these do not help. It
// leaves nothing changed.
func (g *groupCycle) chooseVictims(ctx context.Context, plugin *preemption.Plugin) (*groupPlan, error) {
	domains, err := g.domainsWithout(g.highestPriority())
	if err != nil {
		return nil, err
	}
	defer g.loop.Cache.Show()
	defer g.undo(ctx)
	for _, domain := range domains {
		plan := &groupPlan{trial: plugin.NewGroupTrial(ctx, g.group.Key, g.loop.Groups), members: g.members}
		g.startOver(ctx, nil)
		placed, err := g.placeEvicting(ctx, plan.trial, domain)
		if err != nil {
			return nil, err
		}
		if placed >= g.needed {
			plan.nodes = g.nodes()
			g.reprieve(ctx, plan, domain)
			return plan, nil
		}
	}
	return nil, nil
}

// maxReprieves bounds the work of reprieve, in members that are placed.
const maxReprieves = 4096

// reprieve lets victims stay without whom enough members get a node, too, the most important ones
// first. A member that came later may have made more room than it needed itself.
func (g *groupCycle) reprieve(ctx context.Context, plan *groupPlan, domain podgroup.Domain) {
	choices := plan.trial.Choices()
	if len(choices) < 2 || len(choices)*len(g.members) > maxReprieves {
		return
	}
	for i := 0; i < len(choices); {
		rest := slices.Delete(slices.Clone(choices), i, i+1)
		g.startOver(ctx, rest)
		if g.placeIn(ctx, domain, g.needed) >= g.needed {
			choices, plan.nodes = rest, g.nodes()
			continue
		}
		i++
	}
	plan.trial.Keep(choices)
}

// startOver takes all members back, and prepares a trial on the snapshot without the victims of
// some choices.
func (g *groupCycle) startOver(ctx context.Context, choices []*preemption.Choice) {
	g.undo(ctx)
	g.loop.Cache.Show()
	for _, choice := range choices {
		g.loop.Cache.Hide(choice.Victims...)
	}
	g.renew()
	for _, m := range g.members {
		m.trial, m.decision = true, 0
	}
}

// nodes returns the nodes of the members, "" for those without one.
func (g *groupCycle) nodes() []string {
	nodes := make([]string, len(g.members))
	for i, m := range g.members {
		if m.placed != nil {
			nodes[i] = m.placed.NodeName
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

// domainsWithout returns the domains in which the group may fit without the pods of a lower
// priority.
func (g *groupCycle) domainsWithout(priority int32) ([]podgroup.Domain, error) {
	if !g.loop.Snapshot.HasPodsBelow(priority) {
		return nil, nil
	}
	nodes, err := g.loop.Snapshot.NodeInfos().List()
	if err != nil {
		return nil, fmt.Errorf("listing the nodes: %w", err)
	}
	return g.group.Topology.CandidatesWithout(priority, nodes, g.demand(), g.needed, g.on), nil
}

// highestPriority returns the highest priority that counts for a member.
func (g *groupCycle) highestPriority() int32 {
	highest := g.priorityOf(g.members[0].pod.Pod)
	for _, m := range g.members {
		highest = max(highest, g.priorityOf(m.pod.Pod))
	}
	return highest
}

// priorityOf returns the priority that counts for a pod of the group: that of the group, if it has
// one.
func (g *groupCycle) priorityOf(pod *corev1.Pod) int32 {
	if g.group.Priority != nil {
		return *g.group.Priority
	}
	return corev1helpers.PodPriority(pod)
}

// placeEvicting places as many members as fit in a domain, and then, until enough have a node,
// others for which it takes victims off the snapshot. It returns how many got a node.
func (g *groupCycle) placeEvicting(ctx context.Context, trial *preemption.GroupTrial, domain podgroup.Domain) (placed int, err error) {
	placed = g.placeIn(ctx, domain, 0)
	missing := len(g.members) - placed
	for _, m := range g.members {
		if placed >= g.needed || placed+missing < g.needed {
			return placed, nil
		}
		if m.placed != nil {
			continue
		}
		if err := g.placeMemberEvicting(ctx, trial, m); err != nil {
			return placed, err
		}
		missing--
		if m.placed != nil {
			placed++
		}
	}
	return placed, nil
}

// placeMemberEvicting places a member. It takes victims off the snapshot if it fits nowhere:
// those of members before it may have left room.
func (g *groupCycle) placeMemberEvicting(ctx context.Context, trial *preemption.GroupTrial, m *member) error {
	m.renew()
	g.placeMember(ctx, m)
	var fit *schedframework.FitError
	if m.placed != nil || !errors.As(m.status.AsError(), &fit) {
		return nil
	}
	pod := m.within.Restrict(m.pod.Pod)
	if g.group.Priority != nil {
		ofGroup := *pod
		ofGroup.Spec.Priority = g.group.Priority
		pod = &ofGroup
	}
	choice, err := trial.Choose(ctx, m.state, pod, fit.Diagnosis.NodeToStatus)
	if choice == nil || err != nil {
		return err
	}
	g.loop.Cache.Hide(choice.Victims...)
	m.renew()
	g.placeMember(ctx, m)
	return nil
}

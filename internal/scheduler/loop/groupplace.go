// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// place looks for nodes for the members, in one domain after the other. It reports whether enough
// of them got one. If not, none has one, and why is set.
func (g *groupCycle) place(ctx context.Context) bool {
	for _, domain := range g.domains(ctx) {
		g.renew()
		placed := g.placeIn(ctx, domain, g.needed)
		if placed >= g.needed {
			return true
		}
		if why := g.reason(placed, domain); g.why == nil || why.placed > g.why.placed || why.err != nil {
			g.why = why
		}
		g.undo(ctx)
		if g.why.err != nil {
			return false
		}
	}
	return false
}

// renew prepares the members for a try.
func (g *groupCycle) renew() {
	for _, m := range g.members {
		m.cycle.renew()
		m.status, m.nominating = nil, nil
	}
}

// placeIn places the members on the nodes of a domain, and returns how many got one. It ends early
// if fewer than needed can get one.
func (g *groupCycle) placeIn(ctx context.Context, domain podgroup.Domain, needed int) (placed int) {
	for i, m := range g.members {
		if placed+len(g.members)-i < needed {
			return placed
		}
		m.within = domain
		if g.placeMember(ctx, m); m.placed != nil {
			placed++
		}
	}
	return placed
}

// placeMember looks for a node for a member.
func (g *groupCycle) placeMember(ctx context.Context, m *member) {
	m.start = g.loop.Clock.Now()
	g.loop.Heartbeat.Begin(m.start)
	m.placed, m.nominating, m.status = m.placeInTime(withPod(ctx, m.pod.Pod))
}

// domains returns the domains to try, in order. If there is none that could do, why is set.
func (g *groupCycle) domains(ctx context.Context) []podgroup.Domain {
	if g.group.Problem != "" {
		g.why = newGroupReason(fmt.Sprintf("pod group %s: %s", g.group.Key, g.group.Problem))
		g.why.fit.Diagnosis.UnschedulablePlugins.Insert(podgroup.Gate)
		return nil
	}
	everywhere := []podgroup.Domain{nil}
	if len(g.members) == 0 {
		return everywhere
	}
	first := g.members[0]
	if err := first.updateSnapshot(ctx); err != nil {
		return everywhere // to place the first member will fail, too
	}
	nodes, err := g.loop.Snapshot.NodeInfos().List()
	if err != nil || len(nodes) == 0 {
		return everywhere
	}
	demand := g.demand()
	if demand != nil && g.needed > 1 {
		if room := demand.Room(nodes); room < g.needed {
			g.why = g.tooLarge(len(nodes), room, "")
			return nil
		}
	}
	domains, most := g.group.Topology.Candidates(nodes, demand, g.needed, g.on)
	if len(domains) == 0 {
		g.why = g.tooLarge(len(nodes), most, " in one "+g.group.Topology.Required)
		// A new node may have the label, whatever resources are left on it.
		g.why.fit.Diagnosis.UnschedulablePlugins.Insert(names.NodeAffinity)
	}
	return domains
}

// demand returns what the members request, nil if the profile does not compare that with the nodes.
func (g *groupCycle) demand() *podgroup.Demand {
	instance := g.members[0].profile
	if !instance.FitsResources() {
		return nil
	}
	pods := make([]fwk.PodInfo, len(g.members))
	for i, m := range g.members {
		pods[i] = m.pod.PodInfo
	}
	return podgroup.NewDemand(pods, instance.ChecksOnNodes)
}

// tooLarge is the reason of a group for which the resources do not suffice.
func (g *groupCycle) tooLarge(nodes, room int, where string) *groupReason {
	r := newGroupReason(fmt.Sprintf("pod group %s: %d pods must be placed together, but there are resources for %d of them at most%s",
		g.group.Key, g.needed, room, where))
	r.fit.NumAllNodes = nodes
	r.fit.Diagnosis.UnschedulablePlugins = sets.New(names.NodeResourcesFit)
	return r
}

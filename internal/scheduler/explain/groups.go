// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/livesched/livesched/api/v1alpha1"
)

// maxMessages limits the messages of a plugin in a group: some plugins name what differs on each
// node.
const maxMessages = 5

// maxGroups limits the groups, besides the group of the nodes that the pod excludes.
const maxGroups = 50

// refusal is the refusal of a plugin on a node, and why.
type refusal struct {
	*fwk.Status
	reason v1alpha1.RefusalReason
}

// row is a number of nodes with the same refusals.
type row struct {
	nodes    []*refusedNode
	refusals []refusal
	weight   float64
}

// groups groups the nodes whose rows in a table would be equal, with the closest first. Those that
// the pod itself excludes come last, in one group.
func (e *explainer) groups() []v1alpha1.NodeGroup {
	candidates, excluded := e.partition()
	byKey := map[string]*row{}
	for _, n := range candidates {
		var refusals []refusal
		n.key, refusals = e.keyOf(n)
		r := byKey[n.key]
		if r == nil {
			r = &row{refusals: refusals, weight: n.short.weight()}
			byKey[n.key] = r
		}
		r.nodes, r.weight = append(r.nodes, n), min(r.weight, n.short.weight())
	}
	rows := slices.SortedFunc(maps.Values(byKey), closest)
	groups := make([]v1alpha1.NodeGroup, 0, min(len(rows), maxGroups)+1)
	for _, r := range rows[:min(len(rows), maxGroups)] {
		groups = append(groups, e.group(r))
	}
	if len(rows) > maxGroups {
		groups[maxGroups-1] = e.restOf(rows[maxGroups-1:])
	}
	if len(excluded) > 0 {
		groups = append(groups, e.excludedGroup(excluded))
	}
	return groups
}

// closest compares rows: first by the number of plugins that refuse, then by whether other pods
// could resolve it, by what is missing, and by size.
func closest(a, b *row) int {
	unresolvable := func(r *row) int {
		if r.nodes[0].resolvable() {
			return 0
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(len(a.refusals), len(b.refusals)), cmp.Compare(unresolvable(a), unresolvable(b)),
		cmp.Compare(a.weight, b.weight), cmp.Compare(len(b.nodes), len(a.nodes)),
		cmp.Compare(a.nodes[0].name(), b.nodes[0].name()),
	)
}

// keyOf identifies the row of a node: by the plugins, with their reasons, whether other pods could
// resolve them, and what they are about.
func (e *explainer) keyOf(n *refusedNode) (string, []refusal) {
	var key strings.Builder
	refusals := make([]refusal, len(n.refusals))
	for i, status := range n.refusals {
		refusals[i] = refusal{status, e.reasons.of(status)}
		key.WriteString(status.Plugin())
		key.WriteByte(0)
		key.WriteString(string(refusals[i].reason))
		if resolvable(status) {
			key.WriteByte(1)
		}
		key.WriteByte(0)
		key.WriteString(e.details.key(n, refusals[i]))
		key.WriteByte(0)
	}
	return key.String(), refusals
}

// group describes the nodes of a row.
func (e *explainer) group(r *row) v1alpha1.NodeGroup {
	g := v1alpha1.NodeGroup{Nodes: int32(len(r.nodes)), Pools: poolsOf(r.nodes), Example: r.nodes[0].name()}
	for i, refusal := range r.refusals {
		described := v1alpha1.Refusal{
			Plugin: refusal.Plugin(), Reason: refusal.reason, Detail: e.details.text(r.nodes, refusal),
			Messages: messages(r.nodes, i), Resolvable: resolvable(refusal.Status),
		}
		if refusal.Plugin() == names.NodeResourcesFit {
			described.ShortBy = shortages(r.nodes)
		}
		g.Refusals = append(g.Refusals, described)
	}
	return g
}

// restOf describes the nodes of many rows, by the refusals that all of them have.
func (e *explainer) restOf(rows []*row) v1alpha1.NodeGroup {
	var nodes []*refusedNode
	for _, r := range rows {
		nodes = append(nodes, r.nodes...)
	}
	g := v1alpha1.NodeGroup{Nodes: int32(len(nodes)), Pools: poolsOf(nodes), Example: nodes[0].name(), Partial: true}
	for _, common := range rows[0].refusals {
		same := func(other refusal) bool { return other.Plugin() == common.Plugin() && other.reason == common.reason }
		if !slices.ContainsFunc(rows, func(r *row) bool { return !slices.ContainsFunc(r.refusals, same) }) {
			g.Refusals = append(g.Refusals, v1alpha1.Refusal{Plugin: common.Plugin(), Reason: common.reason})
		}
	}
	return g
}

// partition separates the nodes that the pod's own node selector and node affinity exclude, if they
// let the pod on others. Nodes without refusals of their own are in neither part.
func (e *explainer) partition() (candidates, excluded []*refusedNode) {
	for i := range e.nodes {
		switch n := &e.nodes[i]; {
		case len(n.refusals) == 0:
		case n.isExcluded():
			excluded = append(excluded, n)
		default:
			candidates = append(candidates, n)
		}
	}
	if len(excluded) < len(e.all) {
		return candidates, excluded
	}
	return excluded, nil
}

// isExcluded reports whether the pod excludes a node by its labels or its name.
func (n *refusedNode) isExcluded() bool {
	return slices.ContainsFunc(n.refusals, isMismatch)
}

// isMismatch reports whether a node does not match what the pod demands of nodes.
func isMismatch(s *fwk.Status) bool {
	return s.Plugin() == names.NodeAffinity && !slices.Contains(s.Reasons(), enforcedAffinity)
}

// excludedGroup describes the nodes that the pod excludes. Whatever else refuses the pod there does
// not matter.
func (e *explainer) excludedGroup(nodes []*refusedNode) v1alpha1.NodeGroup {
	status := nodes[0].refusals[slices.IndexFunc(nodes[0].refusals, isMismatch)]
	return v1alpha1.NodeGroup{
		Nodes: int32(len(nodes)), Pools: poolsOf(nodes), Example: nodes[0].name(),
		Partial: slices.ContainsFunc(nodes, func(n *refusedNode) bool { return len(n.refusals) > 1 }),
		Refusals: []v1alpha1.Refusal{{
			Plugin: status.Plugin(), Reason: v1alpha1.ReasonNodeAffinityMismatch, Messages: status.Reasons(),
			Detail: "does not match " + selectorText(e.pod),
		}},
	}
}

// podRefusals describes the refusals of the pod itself.
func (e *explainer) podRefusals() []v1alpha1.Refusal {
	var described []v1alpha1.Refusal
	for _, status := range e.everywhere {
		reason := e.reasons.of(status)
		described = append(described, v1alpha1.Refusal{
			Plugin: status.Plugin(), Reason: reason, Detail: e.details.ofPod(status, reason),
			Messages: status.Reasons(), Resolvable: resolvable(status),
		})
	}
	return described
}

// poolsOf returns the pools of nodes, with the largest first.
func poolsOf(nodes []*refusedNode) []string {
	sizes := map[string]int{}
	for _, n := range nodes {
		sizes[n.pool]++
	}
	return slices.SortedFunc(maps.Keys(sizes), func(a, b string) int {
		return cmp.Or(cmp.Compare(sizes[b], sizes[a]), cmp.Compare(a, b))
	})
}

// messages returns the different messages of the i-th plugin: those for the first node, and those
// for others up to a limit.
func messages(nodes []*refusedNode, i int) []string {
	seen := slices.Clone(nodes[0].refusals[i].Reasons())
	for _, n := range nodes[1:] {
		for _, message := range n.refusals[i].Reasons() {
			if len(seen) < maxMessages && !slices.Contains(seen, message) {
				seen = append(seen, message)
			}
		}
	}
	slices.Sort(seen)
	return seen
}

// onlyRefusedBy reports whether no other plugin refuses the pod on the node.
func (n *refusedNode) onlyRefusedBy(plugins ...string) bool {
	return !slices.ContainsFunc(n.refusals, func(s *fwk.Status) bool { return !slices.Contains(plugins, s.Plugin()) })
}

// resolvable reports whether the pod might fit on the node if other pods left it.
func (n *refusedNode) resolvable() bool { return !slices.ContainsFunc(n.refusals, isUnresolvable) }

func isUnresolvable(s *fwk.Status) bool { return !resolvable(s) }

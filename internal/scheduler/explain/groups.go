// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/livesched/livesched/api/v1alpha1"
)

// maxMessages limits the messages of a plugin in a group: some plugins name what differs on each
// node.
const maxMessages = 5

// poolLabels name the pool of a node, with the provider that sets them.
var poolLabels = []string{
	"cloud.google.com/gke-nodepool", "eks.amazonaws.com/nodegroup", "kubernetes.azure.com/agentpool", "karpenter.sh/nodepool",
}

const roleLabel = "node-role.kubernetes.io/"

// PoolOf returns the pool of a node: that of the provider, or else its roles, or else its instance
// type.
func PoolOf(node *corev1.Node) string {
	for _, label := range poolLabels {
		if pool := node.Labels[label]; pool != "" {
			return pool
		}
	}
	var roles []string
	for label := range node.Labels {
		if role, ok := strings.CutPrefix(label, roleLabel); ok && role != "" {
			roles = append(roles, role)
		}
	}
	if len(roles) > 0 {
		slices.Sort(roles)
		return strings.Join(roles, ",")
	}
	return cmp.Or(node.Labels[corev1.LabelInstanceTypeStable], node.Labels[corev1.LabelInstanceType], "-")
}

// groupKey identifies a group: the pool, and the plugins with their reasons.
func groupKey(n *refusedNode) string {
	key := n.pool
	for _, refusal := range n.refusals {
		key += "\x00" + refusal.Plugin() + "\x01" + string(reasonOf(refusal))
	}
	return key
}

// groups groups the nodes, with the largest group first.
func groups(nodes []refusedNode) []v1alpha1.NodeGroup {
	byKey := map[string][]*refusedNode{}
	for i := range nodes {
		key := groupKey(&nodes[i])
		byKey[key] = append(byKey[key], &nodes[i])
	}
	groups := make([]v1alpha1.NodeGroup, 0, len(byKey))
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		groups = append(groups, group(byKey[key]))
	}
	slices.SortStableFunc(groups, func(a, b v1alpha1.NodeGroup) int { return cmp.Compare(b.Nodes, a.Nodes) })
	return groups
}

// group describes nodes with the same refusals.
func group(nodes []*refusedNode) v1alpha1.NodeGroup {
	first := nodes[0]
	g := v1alpha1.NodeGroup{Nodes: int32(len(nodes)), Pools: []string{first.pool}, Example: first.name()}
	for i, refusal := range first.refusals {
		r := v1alpha1.Refusal{Plugin: refusal.Plugin(), Reason: reasonOf(refusal), Messages: messages(nodes, i)}
		r.Resolvable = !slices.ContainsFunc(nodes, func(n *refusedNode) bool { return !resolvable(n.refusals[i]) })
		if refusal.Plugin() == names.NodeResourcesFit {
			nearest, alike := nearest(nodes)
			r.ShortBy = nearest.short.describe(nearest.name(), alike)
		}
		g.Refusals = append(g.Refusals, r)
	}
	return g
}

// messages returns the different messages of the i-th plugin, up to a limit.
func messages(nodes []*refusedNode, i int) []string {
	var seen []string
	for _, n := range nodes {
		for _, message := range n.refusals[i].Reasons() {
			if !slices.Contains(seen, message) && len(seen) < maxMessages {
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
func (n *refusedNode) resolvable() bool {
	return !slices.ContainsFunc(n.refusals, func(s *fwk.Status) bool { return !resolvable(s) })
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/nodepool"
)

// model is a node of the most common kind of a pool, to add others like it.
type model struct {
	fwk.NodeInfo
	kind
	// obstacles is the least number of plugins that refuse the pod on a node of the pool for a
	// reason that the end of other pods does not resolve.
	obstacles int
	nodes     int
}

// kind is what nodes of a pool have in common.
type kind struct {
	pool                string
	cpu, memory, others int64
	taints              int
}

// models returns a node of each pool. Pools that refuse the pod for the fewest reasons of their own
// come first, and then the largest pools. Nodes that are cordoned or not ready are no
// models.
func (e *explainer) models(eligible func(node *corev1.Node) bool) []*model {
	obstacles := make(map[string]int, len(e.nodes))
	for i := range e.nodes {
		for _, s := range e.nodes[i].refusals {
			if !resolvable(s) {
				obstacles[e.nodes[i].name()]++
			}
		}
	}
	first, counts, pools := map[kind]fwk.NodeInfo{}, map[kind]int{}, map[string]*model{}
	for _, node := range e.all {
		if !isReady(node.Node()) || !eligible(node.Node()) {
			continue
		}
		k := kindOf(node)
		if counts[k]++; counts[k] == 1 {
			first[k] = node
		}
		m := pools[k.pool]
		if m == nil {
			m = &model{NodeInfo: node, kind: k, obstacles: obstacles[node.Node().Name]}
			pools[k.pool] = m
		}
		m.nodes++
		m.obstacles = min(m.obstacles, obstacles[node.Node().Name])
		if counts[k] > counts[m.kind] {
			m.NodeInfo, m.kind = first[k], k
		}
	}
	return slices.SortedFunc(maps.Values(pools), func(a, b *model) int {
		return cmp.Or(cmp.Compare(a.obstacles, b.obstacles), cmp.Compare(b.nodes, a.nodes), cmp.Compare(a.pool, b.pool))
	})
}

func kindOf(node fwk.NodeInfo) kind {
	a := node.GetAllocatable()
	k := kind{pool: nodepool.Of(node.Node()), cpu: a.GetMilliCPU(), memory: a.GetMemory(),
		taints: len(node.Node().Spec.Taints)}
	for _, amount := range a.GetScalarResources() {
		k.others += amount
	}
	return k
}

// isReady reports whether a node takes pods, as far as Kubernetes knows.
func isReady(node *corev1.Node) bool {
	return !node.Spec.Unschedulable && !slices.ContainsFunc(node.Spec.Taints, isOfState)
}

// isOfState reports whether Kubernetes sets a taint by the state of a node.
func isOfState(t corev1.Taint) bool { return strings.HasPrefix(t.Key, "node.kubernetes.io/") }

// text describes which nodes to add.
func (m *model) text(count int) string {
	nodes := "a node"
	if count > 1 {
		nodes = fmt.Sprintf("%d nodes", count)
	}
	if m.pool != nodepool.None {
		return fmt.Sprintf("Add %s like the nodes of the pool %s.", nodes, m.pool)
	}
	a := m.GetAllocatable()
	cpu, memory := cpuText(a.GetMilliCPU()), resource.NewQuantity(a.GetMemory(), resource.BinarySI)
	return fmt.Sprintf("Add %s with %s cpu and %s memory, like %s.", nodes, cpu, memory.String(), m.Node().Name)
}

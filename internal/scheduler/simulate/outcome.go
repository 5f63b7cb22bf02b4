// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/cache"
)

// measure describes where the pods of a snapshot are, which the census has counted. counted are the
// owners whose zone skew counts.
func measure(snapshot *cache.Snapshot, c *census, counted map[owner]bool) v1alpha1.SimulationOutcome {
	out := v1alpha1.SimulationOutcome{NodesUsed: c.usedNodes(), ZoneSkewMax: c.maxSkew(counted)}
	shares := map[string]*shares{}
	for _, node := range nodesOf(snapshot) {
		addShares(shares, node)
	}
	for _, name := range slices.Sorted(maps.Keys(shares)) {
		s := shares[name]
		mean := s.sum / float64(s.nodes)
		deviation := math.Sqrt(max(0, s.squares/float64(s.nodes)-mean*mean))
		out.Utilization = append(out.Utilization, v1alpha1.ResourceUtilization{
			Resource: name, MeanPermille: int32(math.Round(1000 * mean)),
			StddevPermille: int32(math.Round(1000 * deviation)),
		})
	}
	return out
}

// shares sums up the shares of a resource that pods request, over nodes.
type shares struct {
	nodes        int
	sum, squares float64
}

// addShares adds a node to the resources that it has: CPU, memory and extended resources.
func addShares(all map[string]*shares, node fwk.NodeInfo) {
	add := func(name string, requested, allocatable int64) {
		if allocatable <= 0 {
			return
		}
		if all[name] == nil {
			all[name] = &shares{}
		}
		share := float64(requested) / float64(allocatable)
		s := all[name]
		s.nodes, s.sum, s.squares = s.nodes+1, s.sum+share, s.squares+share*share
	}
	requested, allocatable := node.GetRequested(), node.GetAllocatable()
	add(string(corev1.ResourceCPU), requested.GetMilliCPU(), allocatable.GetMilliCPU())
	add(string(corev1.ResourceMemory), requested.GetMemory(), allocatable.GetMemory())
	for name, quantity := range allocatable.GetScalarResources() {
		if strings.Contains(string(name), "/") {
			add(string(name), requested.GetScalarResources()[name], quantity)
		}
	}
}

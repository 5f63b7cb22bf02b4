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

// measure describes where the pods of a snapshot are. owners are those whose zone skew counts.
func measure(snapshot *cache.Snapshot, owners map[owner]bool) v1alpha1.SimulationOutcome {
	var out v1alpha1.SimulationOutcome
	shares, zones := map[string]*shares{}, zoneCounts{}
	for _, node := range nodesOf(snapshot) {
		addShares(shares, node)
		zone, hasZone := node.Node().Labels[corev1.LabelTopologyZone]
		if hasZone {
			zones.add(zone)
		}
		used := false
		for _, info := range node.GetPods() {
			pod := info.GetPod()
			if staysOnNode(pod) {
				continue
			}
			used = true
			if o := ownerOf(pod); hasZone && owners[o] {
				zones.count(zone, o)
			}
		}
		if used {
			out.NodesUsed++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(shares)) {
		mean, deviation := shares[name].meanAndDeviation()
		out.Utilization = append(out.Utilization, v1alpha1.ResourceUtilization{
			Resource: name, MeanPermille: int32(math.Round(1000 * mean)), StddevPermille: int32(math.Round(1000 * deviation)),
		})
	}
	out.ZoneSkewMax = zones.maxSkew(owners)
	return out
}

// shares sums up the shares of a resource that pods request, over nodes.
type shares struct {
	nodes        int
	sum, squares float64
}

func (s *shares) meanAndDeviation() (mean, deviation float64) {
	n := float64(s.nodes)
	mean = s.sum / n
	return mean, math.Sqrt(max(0, s.squares/n-mean*mean))
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

// zoneCounts counts the pods of owners by zone.
type zoneCounts map[string]map[owner]int

func (z zoneCounts) add(zone string) {
	if z[zone] == nil {
		z[zone] = map[owner]int{}
	}
}

func (z zoneCounts) count(zone string, o owner) { z[zone][o]++ }

// maxSkew returns the largest difference between two zones. Zones without pods of an owner count.
// Pods without a controller have no reason to be spread.
func (z zoneCounts) maxSkew(owners map[owner]bool) (skew int32) {
	for o := range owners {
		if o.name == "" {
			continue
		}
		least, most := math.MaxInt, 0
		for _, counts := range z {
			least, most = min(least, counts[o]), max(most, counts[o])
		}
		if len(z) > 1 {
			skew = max(skew, int32(most-least))
		}
	}
	return skew
}

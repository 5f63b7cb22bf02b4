// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// census counts the pods that do not stay, by node, and by controller and zone. It visits the pods
// of the cluster once, and follows what a simulation changes.
type census struct {
	*controllers
	nodes map[string]*nodeCount
	// zones are the numbers of the zones of the nodes.
	zones map[string]int
}

// nodeCount counts the pods of a node.
type nodeCount struct {
	zone int // noZone if the node has none
	pods int
}

const noZone = -1

// newCensus returns a census for a number of nodes.
func newCensus(nodes int) *census {
	return &census{controllers: newControllers(), nodes: make(map[string]*nodeCount, nodes), zones: map[string]int{}}
}

// addNode adds a node, without pods.
func (c *census) addNode(node *corev1.Node) *nodeCount {
	n := &nodeCount{zone: noZone}
	if name, ok := node.Labels[corev1.LabelTopologyZone]; ok {
		if _, known := c.zones[name]; !known {
			c.zones[name] = len(c.zones)
		}
		n.zone = c.zones[name]
	}
	c.nodes[node.Name] = n
	return n
}

// add adds a number of pods of a controller to a node, or takes them off it if the number is
// negative.
func (c *census) add(n *nodeCount, of *controller, pods int) {
	if of.stays {
		return
	}
	n.pods += pods
	if n.zone == noZone {
		return
	}
	for len(of.pods) <= n.zone {
		of.pods = append(of.pods, 0)
	}
	of.pods[n.zone] += pods
}

// move is add for the name of a node. It does nothing if there is no such node.
func (c *census) move(nodeName string, of *controller, pods int) {
	if n := c.nodes[nodeName]; n != nil {
		c.add(n, of, pods)
	}
}

// recount counts the pods of a snapshot, and forgets all others.
func (c *census) recount(snapshot *cache.Snapshot) {
	clear(c.nodes)
	clear(c.zones)
	for _, of := range c.byUID {
		of.pods = of.pods[:0]
	}
	for _, node := range nodesOf(snapshot) {
		n := c.addNode(node.Node())
		for _, info := range node.GetPods() {
			c.add(n, c.of(info.GetPod()), 1)
		}
	}
}

// usedNodes returns the number of nodes with pods.
func (c *census) usedNodes() (used int32) {
	for _, n := range c.nodes {
		if n.pods > 0 {
			used++
		}
	}
	return used
}

// maxSkew returns the largest difference between two of the zones, for the owners that count. Zones
// without pods of an owner count. Pods without a controller have no reason to be spread.
func (c *census) maxSkew(counted map[owner]bool) (skew int32) {
	if len(c.zones) < 2 {
		return 0
	}
	all := map[owner][]int{}
	for _, of := range c.byUID {
		if !counted[of.owner] {
			continue
		}
		pods := all[of.owner]
		if pods == nil {
			pods = make([]int, len(c.zones))
			all[of.owner] = pods
		}
		for zone, n := range of.pods {
			pods[zone] += n
		}
	}
	for _, pods := range all {
		skew = max(skew, int32(slices.Max(pods)-slices.Min(pods)))
	}
	return skew
}

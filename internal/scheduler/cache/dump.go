// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// Dump is the content of a cache, for debugging.
type Dump struct {
	// Nodes are the nodes by name. Those of placeholders have no Node. ImageStates are empty.
	Nodes map[string]*schedframework.NodeInfo
	// AssumedPods are the pods that the API server has not confirmed.
	AssumedPods sets.Set[types.UID]
}

// Dump returns a copy of the content of the cache. It costs all nodes and pods; the cache is locked
// while their pointers are copied, not while NodeInfos are computed.
func (c *Cache) Dump() *Dump {
	facts, assumed := c.copyFacts()
	dump := &Dump{Nodes: make(map[string]*schedframework.NodeInfo, len(facts)), AssumedPods: assumed}
	for name, f := range facts {
		dump.Nodes[name] = newNodeInfo(f.obj, f.pods)
	}
	return dump
}

func (c *Cache) copyFacts() (map[string]nodeFacts, sets.Set[types.UID]) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	facts := make(map[string]nodeFacts, len(c.nodes))
	for name, n := range c.nodes {
		facts[name] = c.factsLocked(n)
	}
	return facts, c.assumedLocked()
}

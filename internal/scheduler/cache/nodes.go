// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	utilnode "k8s.io/component-helpers/node/topology"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// AddNode adds a node. Pods that were assigned to it before it was known, or that are left of an
// earlier node of the same name, are on it.
func (c *Cache) AddNode(_ klog.Logger, node *corev1.Node) {
	c.setNode(node)
}

// UpdateNode updates a node, or adds an unknown one. The cache compares it with the object that it
// has, and ignores oldNode.
func (c *Cache) UpdateNode(_ klog.Logger, _, newNode *corev1.Node) {
	c.setNode(newNode)
}

// Node returns the node of a name, or nil if there is none, or only a placeholder.
func (c *Cache) Node(name string) *corev1.Node {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if n, ok := c.nodes[name]; ok {
		return n.obj
	}
	return nil
}

func (c *Cache) setNode(obj *corev1.Node) {
	known := c.Node(obj.Name)
	// Compare without the lock, since a node may list a hundred images.
	c.storeNode(obj, known, known != nil && podfields.SameNode(known, obj))
}

// storeNode stores the object of a node. same means that it equals known for all plugins.
func (c *Cache) storeNode(obj, known *corev1.Node, same bool) {
	zoneKey := utilnode.GetZoneKey(obj)
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodeLocked(obj.Name)
	n.changes++
	if n.obj == nil {
		c.changes++
		n.obj = obj
		n.recreated = n.slot != noSlot
		c.order.enter(n, zoneKey)
		c.feed.markStale(n)
		return
	}
	if n.obj != known {
		same = podfields.SameNode(n.obj, obj)
	}
	n.obj = obj
	if n.zone.key != zoneKey {
		c.order.leave(n)
		c.order.enter(n, zoneKey)
	}
	kind := nodeChanged
	if same {
		kind = nodeRefreshed
	} else {
		c.changes++
	}
	c.feed.record(delta{kind: kind, node: n})
}

// RemoveNode removes a node. If pods are still on it, whose deletions come from another watch and
// may be later, a placeholder stays: no snapshot shows it, but it keeps the pods in case the node
// comes back. RemoveNode returns [ErrUnknownNode] if there is no such node, or only a placeholder.
func (c *Cache) RemoveNode(_ klog.Logger, node *corev1.Node) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, ok := c.nodes[node.Name]
	if !ok || n.obj == nil {
		return fmt.Errorf("%w: %q", ErrUnknownNode, node.Name)
	}
	n.obj = nil
	n.changes++
	c.changes++
	c.order.leave(n)
	c.feed.markStale(n)
	c.dropIfEmptyLocked(n)
	return nil
}

// nodeFacts is a copy of a node's state in the cache.
type nodeFacts struct {
	obj  *corev1.Node
	pods []*schedframework.PodInfo
}

// factsLocked copies the parts that may change.
func (c *Cache) factsLocked(n *node) nodeFacts {
	return nodeFacts{obj: n.obj, pods: slices.Clone(n.pods)}
}

// newNodeInfo returns the NodeInfo of a node, without its images. It needs no lock, since all
// PodInfos in the cache have computed their resources.
func newNodeInfo(obj *corev1.Node, pods []*schedframework.PodInfo) *schedframework.NodeInfo {
	info := schedframework.NewNodeInfo()
	info.Pods = make([]fwk.PodInfo, 0, len(pods))
	for _, pod := range pods {
		info.AddPodInfo(pod)
	}
	if obj != nil {
		info.SetNode(obj)
	}
	return info
}

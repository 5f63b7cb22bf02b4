// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	utilnode "k8s.io/component-helpers/node/topology"
	"k8s.io/klog/v2"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// AddNode reports a node. Pods that were assigned to it before it was known, or that outlived an
// earlier node of its name, are on it.
func (c *Cache) AddNode(_ klog.Logger, node *corev1.Node) {
	c.setNode(node)
}

// UpdateNode reports a changed node. One that the cache does not know is added. The cache compares
// with the object that it has; oldNode is not looked at.
func (c *Cache) UpdateNode(_ klog.Logger, _, newNode *corev1.Node) {
	c.setNode(newNode)
}

func (c *Cache) setNode(obj *corev1.Node) {
	c.mu.RLock()
	known := c.objectLocked(obj.Name)
	c.mu.RUnlock()
	// Outside the lock, since a node may list a hundred images.
	c.admitNode(obj, known, known != nil && sameNode(known, obj))
}

// admitNode takes over the object of a node. same says whether it stands for the same as known.
func (c *Cache) admitNode(obj, known *corev1.Node, same bool) {
	zoneKey := utilnode.GetZoneKey(obj)
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodeLocked(obj.Name)
	if n.obj == nil {
		n.obj = obj
		n.reborn = n.slot != noSlot
		c.order.enter(n, zoneKey)
		c.feed.resync(n)
		return
	}
	if n.obj != known {
		same = sameNode(n.obj, obj)
	}
	n.obj = obj
	if n.zone.key != zoneKey {
		c.order.leave(n)
		c.order.enter(n, zoneKey)
	}
	kind := nodeChanged
	if same {
		kind = nodeRefreshed
	}
	c.feed.record(delta{kind: kind, node: n})
}

func (c *Cache) objectLocked(name string) *corev1.Node {
	if n, ok := c.nodes[name]; ok {
		return n.obj
	}
	return nil
}

// RemoveNode reports that a node is gone. While there are pods on it, whose deletions are reported
// by another watch and may come later, a ghost is left: it is in no snapshot, but it knows its pods
// if the node comes back. It is an [ErrUnknownNode] if there is no such node, or only its ghost.
func (c *Cache) RemoveNode(_ klog.Logger, node *corev1.Node) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, ok := c.nodes[node.Name]
	if !ok || n.obj == nil {
		return fmt.Errorf("%w: %q", ErrUnknownNode, node.Name)
	}
	n.obj = nil
	c.order.leave(n)
	c.feed.resync(n)
	c.dropIfEmptyLocked(n)
	return nil
}

// GetNode returns a NodeInfo of its own of a node, made from what the cache knows at this moment;
// that of a ghost has no Node. ImageStates is empty: nodes that have an image are counted in
// snapshots only. It costs the pods on the node. It is an [ErrUnknownNode] if there is neither node
// nor ghost.
func (c *Cache) GetNode(name string) (*schedframework.NodeInfo, error) {
	c.mu.RLock()
	n, ok := c.nodes[name]
	if !ok {
		c.mu.RUnlock()
		return nil, fmt.Errorf("%w: %q", ErrUnknownNode, name)
	}
	facts := n.facts()
	c.mu.RUnlock()
	return facts.nodeInfo(), nil
}

// nodeFacts is what the cache knew of a node at some moment.
type nodeFacts struct {
	obj  *corev1.Node
	pods []*schedframework.PodInfo
}

// facts copies what may change. The caller holds Cache.mu.
func (n *node) facts() nodeFacts {
	return nodeFacts{obj: n.obj, pods: append([]*schedframework.PodInfo(nil), n.pods...)}
}

// nodeInfo adds the facts up. All PodInfos in the cache have worked out their resources, so that it
// needs no lock.
func (f nodeFacts) nodeInfo() *schedframework.NodeInfo {
	return sumUp(f.obj, f.pods)
}

// sumUp makes a NodeInfo, all but its images.
func sumUp(obj *corev1.Node, pods []*schedframework.PodInfo) *schedframework.NodeInfo {
	info := schedframework.NewNodeInfo()
	for _, pod := range pods {
		info.AddPodInfo(pod)
	}
	if obj != nil {
		info.SetNode(obj)
	}
	return info
}

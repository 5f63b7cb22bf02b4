// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package eventhandlers

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

func (h *handlers) nodeAdded(node *corev1.Node) {
	start := time.Now()
	h.cache.AddNode(eventLogger(), node)
	h.observed(start, fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}, nil, node)
}

func (h *handlers) nodeUpdated(oldNode, newNode *corev1.Node) {
	start := time.Now()
	h.cache.UpdateNode(eventLogger(), oldNode, newNode)
	h.observedEach(start, schedframework.NodeSchedulingPropertiesChange(newNode, oldNode), oldNode, newNode)
}

func (h *handlers) nodeDeleted(node *corev1.Node) {
	start := time.Now()
	logger := eventLogger()
	if err := h.cache.RemoveNode(logger, node); err != nil {
		utilruntime.HandleErrorWithLogger(logger, err, "Removing a node from the cache failed", "node", klog.KObj(node))
	}
	h.observed(start, fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Delete}, node, nil)
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package fork

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/internal/scheduler/cache"
)

// Snapshot returns the nodes and pods of the fork, with all changes. It is valid until the next
// change.
func (k *Fork) Snapshot() (*cache.Snapshot, error) {
	if err := k.refresh(); err != nil {
		return nil, err
	}
	return k.snapshot, nil
}

// IsAssumed reports whether a pod is assumed: decided, but not yet bound.
func (k *Fork) IsAssumed(pod *corev1.Pod) bool {
	assumed, err := k.cache.IsAssumedPod(pod)
	return err == nil && assumed
}

// Pod returns the pod as it is on its node, or nil if it is on none.
func (k *Fork) Pod(pod *corev1.Pod) *corev1.Pod {
	placed, err := k.cache.GetPod(pod)
	if err != nil {
		return nil
	}
	return placed
}

// SetNode adds a node, or replaces the one of the same name. Pods stay on it.
func (k *Fork) SetNode(node *corev1.Node) { k.cache.AddNode(k.logger, node) }

// RemoveNode removes a node. Its pods come back with it.
func (k *Fork) RemoveNode(node *corev1.Node) error { return k.cache.RemoveNode(k.logger, node) }

// SetPod adds a pod to the node that its spec names, or replaces it.
func (k *Fork) SetPod(pod *corev1.Pod) error { return k.cache.AddPod(k.logger, pod) }

// RemovePod takes a pod off its node. Its volumes stay bound and its claims allocated, as they do
// when a pod has only just ended.
func (k *Fork) RemovePod(pod *corev1.Pod) error { return k.cache.RemovePod(k.logger, pod) }

// Empty takes all pods off all nodes, until restore is called.
func (k *Fork) Empty() (restore func(), err error) {
	nodes, err := k.snapshot.NodeInfos().List()
	if err != nil {
		return nil, err
	}
	full, empty := k.cache, cache.New()
	for _, node := range nodes {
		empty.AddNode(k.logger, node.Node())
	}
	k.cache = empty
	return func() { k.cache = full }, nil
}

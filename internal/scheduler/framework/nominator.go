// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Nominator knows the pods that are nominated to nodes, as the scheduling queue does.
type Nominator interface {
	// NominatedPodsForNode returns the pods that are nominated to a node.
	NominatedPodsForNode(nodeName string) []fwk.PodInfo
	// NominatedNodes returns the nodes to which pods other than this one are nominated that have at
	// least its priority. Each has a number that changes as soon as other such pods are nominated
	// to it. repelling reports whether one of these pods has required anti-affinity.
	NominatedNodes(pod *corev1.Pod) (nodes map[string]uint64, repelling bool)
}

// NominatedNodes returns the nodes for which RunFilterPluginsWithNominatedPods may return another
// status than RunFilterPlugins; see [Nominator].
func (f *Framework) NominatedNodes(pod *corev1.Pod) (nodes map[string]uint64, repelling bool) {
	if f.cfg.Nominator == nil {
		return nil, false
	}
	return f.cfg.Nominator.NominatedNodes(pod)
}

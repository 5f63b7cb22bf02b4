// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	corev1 "k8s.io/api/core/v1"
)

// NodeOf returns a node with room for 4 CPUs, 8 GiB and 110 pods. labels are pairs of keys and
// values.
func NodeOf(name string, labels ...string) *corev1.Node {
	n := Node(name, "4", "8Gi", nil)
	for i := 0; i < len(labels); i += 2 {
		n.Labels[labels[i]] = labels[i+1]
	}
	return n
}

// Tainted gives a node one taint, which keeps pods from being scheduled.
func Tainted(n *corev1.Node, key string) *corev1.Node {
	n.Spec.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}}
	return n
}

// Cordoned makes a node unschedulable.
func Cordoned(n *corev1.Node) *corev1.Node {
	n.Spec.Unschedulable = true
	return n
}

// Relabelled replaces the labels of a node, except for its host name.
func Relabelled(labels ...string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Labels = NodeOf(n.Name, labels...).Labels
	}
}

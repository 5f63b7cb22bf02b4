// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podfields

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/internal/memsize"
)

// NodeSelectionBytes estimates the memory of what determines the nodes that a pod may run on: its
// node selector, node affinity and tolerations.
func NodeSelectionBytes(pod *corev1.Pod) int {
	spec := &pod.Spec
	return memsize.Of(&spec.NodeSelector) + memsize.Of(&spec.Tolerations) + memsize.Of(&affinityOf(pod).NodeAffinity)
}

// HostPortBytes estimates the memory of the host ports that a pod occupies.
func HostPortBytes(pod *corev1.Pod) (n int) {
	for port := range hostPorts(pod) {
		n += memsize.Of(port)
	}
	return n
}

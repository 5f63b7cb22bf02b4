// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// checkBinding checks that a node has what the pods on it request, once one has been bound to it.
func (w *World) checkBinding(bound *corev1.Pod) {
	if time.Now().Before(w.excused) {
		return
	}
	node := w.nodeOf(bound)
	if node == nil {
		w.counts["bound to a missing node"]++
		return
	}
	// livesched may not have known.
	if at, ok := w.cluster.shrunk[node.Name]; ok && time.Since(at) < lateness {
		w.counts["bound to a node that shrank"]++
		return
	}
	if at, ok := w.cluster.filled[node.Name]; ok && time.Since(at) < lateness {
		w.counts["bound to a node that others filled"]++
		return
	}
	if at, ok := w.cluster.resized[bound.UID]; ok && time.Since(at) < lateness {
		w.counts["bound while it was resized"]++
		w.cluster.filled[node.Name] = time.Now()
		return
	}
	ports := 0
	for _, pod := range w.podsOn(node) {
		if !podutil.IsPodTerminal(pod) && len(pod.Spec.Containers[0].Ports) > 0 {
			ports++
		}
	}
	own := corev1.ResourceList{}
	addRequests(own, bound)
	requested := w.requestsOn(node)
	for _, name := range slices.Sorted(maps.Keys(requested)) {
		sum := requested[name]
		if slices.Contains(deviceResources, name) {
			continue // checkClaims
		}
		if free := node.Status.Allocatable[name]; own.Name(name, resource.DecimalSI).Sign() > 0 && sum.Cmp(free) > 0 {
			w.fail("pod %s was bound to %s, whose pods now request %s of %s, more than %s", bound.Name, node.Name,
				sum.String(), name, free.String())
		}
	}
	if ports > 1 && len(bound.Spec.Containers[0].Ports) > 0 {
		w.fail("pod %s was bound to %s, where another pod has its port", bound.Name, node.Name)
	}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// logSituation adds to the transcript what decides about a pod: its spec, the nodes, and the pods
// that they have or that are nominated for them.
func (w *World) logSituation(pod *corev1.Pod) {
	w.log.add("pod %s/%s is %s", pod.Namespace, pod.Name, asJSON(pod.Spec))
	for _, node := range sorted(w.cluster.nodes) {
		w.log.add("node %s has labels %v, spec %s, allocatable %s", node.Name, node.Labels, asJSON(node.Spec),
			asJSON(node.Status.Allocatable))
	}
	for _, other := range sorted(w.cluster.pods) {
		if node := other.Spec.NodeName + other.Status.NominatedNodeName; node != "" {
			w.log.add("pod %s/%s of node %s has labels %v, requests %s, affinity %s", other.Namespace, other.Name, node,
				other.Labels, asJSON(other.Spec.Containers[0].Resources.Requests), asJSON(other.Spec.Affinity))
		}
	}
}

func asJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprint("a part of an object: ", err))
	}
	return string(text)
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podkind finds pods that are alike to a scheduler, so that one of them can be explained
// for all.
package podkind

import (
	"cmp"
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Key returns a text that is equal for pods of one namespace and one owner that are Alike. Pods
// without an owner count as one owner's.
func Key(pod *corev1.Pod) string {
	controller := metav1.GetControllerOf(pod)
	key := pod.Namespace + "\x00"
	if controller != nil {
		key += Owner(pod) + "\x00"
	}
	if controller == nil || controller.Kind != "DaemonSet" { // whose pods each have an affinity of their own
		key += Alike(pod)
	}
	return key
}

// Alike returns a text that is equal for pods with the same requests and constraints.
func Alike(pod *corev1.Pod) string {
	spec := pod.Spec
	var requests []any
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			requests = append(requests, containers[i].Resources, containers[i].Ports)
		}
	}
	text, _ := json.Marshal([]any{ // it never fails for these types
		requests, spec.Resources, spec.Overhead, spec.NodeSelector, spec.Affinity, spec.Tolerations,
		spec.TopologySpreadConstraints,
		spec.SchedulerName, spec.Priority, spec.ResourceClaims, spec.SchedulingGates,
	})
	return string(text)
}

// Owner names what creates a pod, in the form of kubectl: the Deployment of a ReplicaSet
// (deployment/web), another controller (job/train), or the pod itself (pod/debug).
func Owner(pod *corev1.Pod) string {
	controller := metav1.GetControllerOf(pod)
	if controller == nil {
		return "pod/" + pod.Name
	}
	if hash := pod.Labels["pod-template-hash"]; hash != "" && controller.Kind == "ReplicaSet" {
		if name, is := strings.CutSuffix(controller.Name, "-"+hash); is {
			return "deployment/" + name
		}
	}
	return strings.ToLower(controller.Kind) + "/" + controller.Name
}

// CompareNames orders names by their length first, so that worker-2 is before worker-10.
func CompareNames(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podfields

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StaysWithNode reports whether a pod runs as long as its node, and no other node can take it: a
// pod of a DaemonSet, or a static pod. A new node of the same kind has such a pod, too. The API
// server knows a static pod by its mirror pod, which the kubelet annotates, and whose controller is
// the Node.
//
// The priority class does not matter: pods that are critical for the cluster, such as those of a
// DNS server, may move.
func StaysWithNode(pod *corev1.Pod) bool {
	if _, static := pod.Annotations[corev1.MirrorPodAnnotationKey]; static {
		return true
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && (owner.Kind == "DaemonSet" || owner.Kind == "Node")
}

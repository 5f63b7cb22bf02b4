// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// Queued returns the pod that a QueueSort plugin compares. livesched's queue has no other entities:
// a member stands for its group.
func Queued(entity fwk.QueuedEntityInfo) *corev1.Pod {
	return entity.(*schedframework.QueuedPodInfo).Pod
}

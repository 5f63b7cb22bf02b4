// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
)

// priorities counts the pods of each priority on all nodes of a snapshot. There are few priorities.
type priorities map[int32]int

func (p priorities) add(pod *corev1.Pod) { p[corev1helpers.PodPriority(pod)]++ }

func (p priorities) remove(pod *corev1.Pod) {
	priority := corev1helpers.PodPriority(pod)
	if p[priority]--; p[priority] <= 0 {
		delete(p, priority)
	}
}

// below reports whether there is a pod of a lower priority.
func (p priorities) below(priority int32) bool {
	for other := range p {
		if other < priority {
			return true
		}
	}
	return false
}

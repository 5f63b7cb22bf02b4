// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// pvcUsers counts the pods that use each PersistentVolumeClaim, on all nodes of a snapshot.
type pvcUsers map[pvcKey]int

type pvcKey struct{ namespace, name string }

// count adds a pod if by is 1, and removes it if by is -1.
func (u pvcUsers) count(pod *corev1.Pod, by int) {
	for i := range pod.Spec.Volumes {
		if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
			addTo(u, pvcKey{pod.Namespace, claim.ClaimName}, by)
		}
	}
}

// addTo changes a count, and removes it when it reaches zero.
func addTo[K comparable](counts map[K]int, key K, by int) {
	if counts[key] += by; counts[key] == 0 {
		delete(counts, key)
	}
}

// used reports whether a pod uses the claim with a key such as "namespace/name".
func (u pvcUsers) used(key string) bool {
	namespace, name, ok := strings.Cut(key, "/")
	return ok && u[pvcKey{namespace, name}] > 0
}

// priorities counts the pods of each priority on all nodes of a snapshot. There are few priorities.
type priorities map[int32]int

// below reports whether there is a pod of a lower priority.
func (p priorities) below(priority int32) bool {
	for other := range p {
		if other < priority {
			return true
		}
	}
	return false
}

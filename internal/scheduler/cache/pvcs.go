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

func (u pvcUsers) add(pod *corev1.Pod) {
	for i := range pod.Spec.Volumes {
		if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
			u[pvcKey{pod.Namespace, claim.ClaimName}]++
		}
	}
}

func (u pvcUsers) remove(pod *corev1.Pod) {
	for i := range pod.Spec.Volumes {
		claim := pod.Spec.Volumes[i].PersistentVolumeClaim
		if claim == nil {
			continue
		}
		key := pvcKey{pod.Namespace, claim.ClaimName}
		if u[key]--; u[key] <= 0 {
			delete(u, key)
		}
	}
}

// used reports whether a pod uses the claim with a key such as "namespace/name".
func (u pvcUsers) used(key string) bool {
	namespace, name, ok := strings.Cut(key, "/")
	return ok && u[pvcKey{namespace, name}] > 0
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"sync"
	"weak"

	corev1 "k8s.io/api/core/v1"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// minSweep is the number of kinds of pods at which those that are gone are first searched for.
const minSweep = 1024

// alike knows a pod of each kind that is in the cache, so that the next one of the kind need not be
// parsed, nor have terms and resources of its own: informers have the pods of an owner share
// containers and affinity, by which the kind is found. Pods that share nothing are parsed each for
// itself.
//
// It keeps no pod in memory. It is used by informer handlers, within and without Cache.mu; mu
// guards it, and is the last lock that is taken.
type alike struct {
	mu      sync.Mutex
	known   map[kindKey]weak.Pointer[schedframework.PodInfo]
	sweepAt int
}

// kindKey is what pods of a kind have in common to begin with; find compares the rest.
type kindKey struct {
	namespace string // terms without namespaces mean the pod's
	container *corev1.Container
	affinity  *corev1.Affinity
}

func newAlike() *alike {
	return &alike{known: map[kindKey]weak.Pointer[schedframework.PodInfo]{}, sweepAt: minSweep}
}

func kindOf(pod *corev1.Pod) (kindKey, bool) {
	if len(pod.Spec.Containers) == 0 {
		return kindKey{}, false
	}
	return kindKey{pod.Namespace, &pod.Spec.Containers[0], pod.Spec.Affinity}, true
}

// find returns a copy, for a pod, of the PodInfo of one like it: with the same terms and resources.
// It is nil if there is none.
func (a *alike) find(pod *corev1.Pod) *schedframework.PodInfo {
	key, ok := kindOf(pod)
	if !ok {
		return nil
	}
	a.mu.Lock()
	info := a.known[key].Value()
	a.mu.Unlock()
	if info == nil || !sameRequestInputs(info.Pod, pod) || !sameNodeClaims(info.Pod.Status.NodeAllocatableResourceClaimStatuses, pod.Status.NodeAllocatableResourceClaimStatuses) {
		return nil
	}
	copied := *info
	copied.Pod = pod
	return &copied
}

// learn makes a pod, whose PodInfo has worked out its resources, the one of its kind.
func (a *alike) learn(info *schedframework.PodInfo) {
	key, ok := kindOf(info.Pod)
	if !ok {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known[key] = weak.Make(info)
	if len(a.known) < a.sweepAt {
		return
	}
	for key, info := range a.known {
		if info.Value() == nil {
			delete(a.known, key)
		}
	}
	a.sweepAt = max(minSweep, 2*len(a.known))
}

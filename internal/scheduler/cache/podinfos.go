// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"sync"
	"weak"

	corev1 "k8s.io/api/core/v1"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// minSweep is the number of templates at which collected ones are first removed.
const minSweep = 1024

// podInfoCache remembers the PodInfo of one pod of each template in the cache, so that the next pod
// of the template shares its parsed terms and its resources: informers make the pods of an owner
// share containers and affinity, by which the template is found. Pods that share nothing are parsed
// one by one.
//
// It keeps no pod in memory. Informer handlers use it with and without Cache.mu. mu guards it, and
// is the last lock in the order.
type podInfoCache struct {
	mu      sync.Mutex
	known   map[templateKey]weak.Pointer[schedframework.PodInfo]
	sweepAt int
}

// templateKey identifies the template of pods by the memory that they share; find compares the
// rest.
type templateKey struct {
	namespace string // to which terms without namespaces refer
	container *corev1.Container
	affinity  *corev1.Affinity
}

func newPodInfoCache() *podInfoCache {
	return &podInfoCache{known: map[templateKey]weak.Pointer[schedframework.PodInfo]{}, sweepAt: minSweep}
}

func templateOf(pod *corev1.Pod) (templateKey, bool) {
	if len(pod.Spec.Containers) == 0 {
		return templateKey{}, false
	}
	return templateKey{pod.Namespace, &pod.Spec.Containers[0], pod.Spec.Affinity}, true
}

// find returns a PodInfo for pod with the terms and resources of a known pod of its template, nil
// if there is none.
func (c *podInfoCache) find(pod *corev1.Pod) *schedframework.PodInfo {
	key, ok := templateOf(pod)
	if !ok {
		return nil
	}
	c.mu.Lock()
	info := c.known[key].Value()
	c.mu.Unlock()
	if info == nil || !podfields.SameRequestInputs(info.Pod, pod) {
		return nil
	}
	copied := *info
	copied.Pod = pod
	return &copied
}

// learn remembers a PodInfo, whose resources are computed, for its template.
func (c *podInfoCache) learn(info *schedframework.PodInfo) {
	key, ok := templateOf(info.Pod)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[key] = weak.Make(info)
	if len(c.known) < c.sweepAt {
		return
	}
	for key, info := range c.known {
		if info.Value() == nil {
			delete(c.known, key)
		}
	}
	c.sweepAt = max(minSweep, 2*len(c.known))
}

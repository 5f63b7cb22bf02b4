// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
)

// maxChangedGroups bounds the list of pod groups that a snapshot has yet to copy one by one.
const maxChangedGroups = 4096

// podGroups knows the pods of each pod group, those in the queue included. It is empty unless the feature gate
// GenericWorkload is on.
//
// It has no lock; Cache.mu guards it.
type podGroups struct {
	enabled bool
	states  map[podGroupKey]*podGroupState
	// changed are the groups that the fed snapshot has yet to copy. If there are too many, changed is empty and all is
	// set: it copies all.
	changed map[podGroupKey]struct{}
	all     bool
}

type podGroupKey struct{ namespace, name string }

func newPodGroups() podGroups {
	return podGroups{
		enabled: utilfeature.DefaultFeatureGate.Enabled(features.GenericWorkload),
		states:  make(map[podGroupKey]*podGroupState),
		changed: make(map[podGroupKey]struct{}),
	}
}

// PodGroupStates returns the lister of pod groups as they are at the moment. What it returns may be read from any
// goroutine and follows the cache.
func (c *Cache) PodGroupStates() fwk.PodGroupStateLister { return livePodGroups{c} }

type livePodGroups struct{ cache *Cache }

// Get returns the state of a pod group.
func (l livePodGroups) Get(namespace, podGroupName string) (fwk.PodGroupState, error) {
	l.cache.mu.RLock()
	defer l.cache.mu.RUnlock()
	return podGroupLister{l.cache.groups.states}.Get(namespace, podGroupName)
}

// AddPodGroupMember reports a pod that is not assigned, for its pod group, if it has one.
func (c *Cache) AddPodGroupMember(pod *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.groups.observe(pod)
}

// UpdatePodGroupMember reports a changed pod that was not assigned, for its pod group, if it has one.
func (c *Cache) UpdatePodGroupMember(_ klog.Logger, _, newPod *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.groups.observe(newPod)
}

// RemovePodGroupMember reports that a pod which was not assigned is gone, for its pod group, if it has one.
func (c *Cache) RemovePodGroupMember(pod *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.groups.remove(pod)
}

// key returns the group of a pod, and whether it has one that is kept.
func (g *podGroups) key(pod *corev1.Pod) (podGroupKey, bool) {
	if !g.enabled || pod.Spec.SchedulingGroup == nil || pod.Spec.SchedulingGroup.PodGroupName == nil {
		return podGroupKey{}, false
	}
	return podGroupKey{pod.Namespace, *pod.Spec.SchedulingGroup.PodGroupName}, true
}

// observe takes the API server's object of a pod.
func (g *podGroups) observe(pod *corev1.Pod) {
	key, ok := g.key(pod)
	if !ok {
		return
	}
	state, ok := g.states[key]
	if !ok {
		state = &podGroupState{mu: new(sync.RWMutex), members: make(map[types.UID]groupMember)}
		g.states[key] = state
	}
	member := groupMember{pod: pod}
	if pod.Spec.NodeName == "" {
		member.assumed = state.members[pod.UID].assumed
	}
	state.set(member)
	g.touch(key)
}

// assume marks a pod as assumed. Since its group has heard of it before it was scheduled, a pod that the group does
// not know was deleted meanwhile.
func (g *podGroups) assume(pod *corev1.Pod) {
	g.mark(pod, pod)
}

// forget takes back assume.
func (g *podGroups) forget(pod *corev1.Pod) {
	g.mark(pod, nil)
}

func (g *podGroups) mark(pod, assumed *corev1.Pod) {
	key, ok := g.key(pod)
	if !ok {
		return
	}
	state, ok := g.states[key]
	if !ok {
		return
	}
	if member, ok := state.members[pod.UID]; ok {
		state.set(groupMember{pod: member.pod, assumed: assumed})
		g.touch(key)
	}
}

func (g *podGroups) remove(pod *corev1.Pod) {
	key, ok := g.key(pod)
	if !ok {
		return
	}
	state, ok := g.states[key]
	if !ok {
		return
	}
	state.unset(pod.UID)
	if state.AllPodsCount() == 0 {
		delete(g.states, key)
	}
	g.touch(key)
}

// touch has a group copied by the next refresh.
func (g *podGroups) touch(key podGroupKey) {
	switch {
	case g.all:
	case len(g.changed) < maxChangedGroups:
		g.changed[key] = struct{}{}
	default:
		g.all = true
		clear(g.changed)
	}
}

// refresh copies the groups that have changed to the fed snapshot.
func (g *podGroups) refresh(s *Snapshot) {
	if g.all {
		g.copyAll(s)
	}
	for key := range g.changed {
		if state, ok := g.states[key]; ok {
			s.groups[key] = state.copy()
		} else {
			delete(s.groups, key)
		}
	}
	g.settled()
}

// settled forgets what the fed snapshot had yet to copy.
func (g *podGroups) settled() {
	clear(g.changed)
	g.all = false
}

// copyAll copies all groups to a snapshot.
func (g *podGroups) copyAll(s *Snapshot) {
	clear(s.groups)
	for key, state := range g.states {
		s.groups[key] = state.copy()
	}
}

type podGroupLister struct {
	states map[podGroupKey]*podGroupState
}

// Get returns the state of a pod group.
func (l podGroupLister) Get(namespace, podGroupName string) (fwk.PodGroupState, error) {
	state, ok := l.states[podGroupKey{namespace, podGroupName}]
	if !ok {
		return nil, fmt.Errorf("pod group state not found for pod group %s/%s", namespace, podGroupName)
	}
	return state, nil
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// podGroupState is the pods of one group. That in the cache is written under Cache.mu and, since plugins hold it, its
// own; that in a snapshot is a copy that nobody writes to.
type podGroupState struct {
	mu      *sync.RWMutex
	members map[types.UID]groupMember
	// scheduled is the number of members that are assumed or assigned.
	scheduled int
}

var _ fwk.PodGroupState = (*podGroupState)(nil)

// groupMember is a pod of a group: assigned if the API server's object says so, else assumed if it is, else
// unscheduled.
type groupMember struct {
	pod     *corev1.Pod
	assumed *corev1.Pod
}

func (m groupMember) isAssigned() bool    { return m.pod != nil && m.pod.Spec.NodeName != "" }
func (m groupMember) isAssumed() bool     { return !m.isAssigned() && m.assumed != nil }
func (m groupMember) isUnscheduled() bool { return m.pod != nil && !m.isAssigned() && m.assumed == nil }

// scheduledPod returns the pod with its node, nil if it has none.
func (m groupMember) scheduledPod() *corev1.Pod {
	if m.isAssigned() {
		return m.pod
	}
	return m.assumed
}

func (s *podGroupState) set(member groupMember) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(s.members[member.pod.UID], -1)
	s.count(member, 1)
	s.members[member.pod.UID] = member
}

func (s *podGroupState) unset(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(s.members[uid], -1)
	delete(s.members, uid)
}

func (s *podGroupState) count(member groupMember, by int) {
	if member.scheduledPod() != nil {
		s.scheduled += by
	}
}

func (s *podGroupState) copy() *podGroupState {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return &podGroupState{mu: new(sync.RWMutex), members: maps.Clone(s.members), scheduled: s.scheduled}
}

// AllPods returns the UIDs of all pods of the group.
func (s *podGroupState) AllPods() sets.Set[types.UID] {
	return s.uids(func(groupMember) bool { return true })
}

// AllPodsCount returns the number of pods of the group.
func (s *podGroupState) AllPodsCount() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.members)
}

// UnscheduledPods returns the pods that are neither assumed nor assigned, by name.
func (s *podGroupState) UnscheduledPods() map[string]*corev1.Pod {
	s.mu.RLock()
	defer s.mu.RUnlock()
	pods := make(map[string]*corev1.Pod, len(s.members)-s.scheduled)
	for _, member := range s.members {
		if member.isUnscheduled() {
			pods[member.pod.Name] = member.pod
		}
	}
	return pods
}

// AssumedPods returns the UIDs of the pods that are assumed and not yet known to be assigned.
func (s *podGroupState) AssumedPods() sets.Set[types.UID] { return s.uids(groupMember.isAssumed) }

// AssignedPods returns the UIDs of the pods that the API server has on a node.
func (s *podGroupState) AssignedPods() sets.Set[types.UID] { return s.uids(groupMember.isAssigned) }

// ScheduledPods returns the pods that are assumed or assigned.
func (s *podGroupState) ScheduledPods() []*corev1.Pod {
	s.mu.RLock()
	defer s.mu.RUnlock()
	pods := make([]*corev1.Pod, 0, s.scheduled)
	for _, member := range s.members {
		if pod := member.scheduledPod(); pod != nil {
			pods = append(pods, pod)
		}
	}
	return pods
}

// ScheduledPodsCount returns the number of pods that are assumed or assigned.
func (s *podGroupState) ScheduledPodsCount() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.scheduled
}

func (s *podGroupState) uids(wanted func(groupMember) bool) sets.Set[types.UID] {
	s.mu.RLock()
	defer s.mu.RUnlock()
	uids := sets.New[types.UID]()
	for uid, member := range s.members {
		if wanted(member) {
			uids.Insert(uid)
		}
	}
	return uids
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Registry knows the groups of the cluster, and which of their pods have a node. A nil Registry
// knows of no groups: all pods are scheduled one by one.
//
// Informer handlers, the scheduling loop, binding goroutines and the queue call it concurrently.
// Its mutex is the innermost: the Registry calls nobody, and the queue calls it with its lock held.
type Registry struct {
	mu sync.Mutex // guards the rest, but is not held while served is called
	// served reports whether the API server serves PodGroups. nil: it does not.
	served func() bool
	// groups has the groups that have an object or pods with a node.
	groups map[Key]*state
}

// state is what is known about one group.
type state struct {
	// group is nil while there is no object.
	group *Group
	// placed are the pods that have a node.
	placed map[types.UID]placement
}

// placement is how a pod got its node: both bits may be set.
type placement uint8

const (
	// assumed: the scheduling loop has placed the pod, together with enough others.
	assumed placement = 1 << iota
	// assigned: the API server has confirmed the node.
	assigned
)

// NewRegistry returns a Registry without groups.
func NewRegistry() *Registry { return &Registry{groups: map[Key]*state{}} }

// SetServed sets the function that reports whether the API server serves PodGroups. Until it does,
// the label has no meaning, and the Registry applies to no pod. The function must not block.
func (r *Registry) SetServed(served func() bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.served = served
}

// SetGroup records the newest version of a group.
func (r *Registry) SetGroup(g Group) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stateLocked(g.Key).group = &g
}

// DeleteGroup records that the object of a group is gone.
func (r *Registry) DeleteGroup(key Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.groups[key]; s != nil {
		s.group = nil
		r.tidyLocked(key, s)
	}
}

// SetAssumed records that the scheduling loop has placed a pod of a group.
func (r *Registry) SetAssumed(pod *corev1.Pod) { r.set(pod, assumed) }

// SetAssigned records that a pod has a node, according to the API server. It returns the group, the
// zero Key if there is none or the Registry knew it already.
func (r *Registry) SetAssigned(pod *corev1.Pod) Key { return r.set(pod, assigned) }

func (r *Registry) set(pod *corev1.Pod, how placement) Key {
	key := KeyOf(pod)
	if r == nil || key == (Key{}) {
		return Key{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stateLocked(key)
	before := s.placed[pod.UID]
	s.placed[pod.UID] = before | how
	if before != 0 {
		return Key{}
	}
	return key
}

// Undo records that a pod that the loop had placed was not bound. A pod that the API server has
// confirmed in the meantime stays.
func (r *Registry) Undo(pod *corev1.Pod) { r.unset(pod, assumed) }

// Forget records that a pod is gone, or has ended.
func (r *Registry) Forget(pod *corev1.Pod) { r.unset(pod, assumed|assigned) }

func (r *Registry) unset(pod *corev1.Pod, how placement) {
	key := KeyOf(pod)
	if r == nil || key == (Key{}) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.groups[key]
	if s == nil {
		return
	}
	if s.placed[pod.UID] &^= how; s.placed[pod.UID] == 0 {
		delete(s.placed, pod.UID)
		r.tidyLocked(key, s)
	}
}

// Applies reports whether pods that name a group are scheduled as a group: the API server serves
// PodGroups.
func (r *Registry) Applies() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	served := r.served
	r.mu.Unlock()
	return served != nil && served()
}

// Needed returns how many pods of a group must get a node together: what its MinMember leaves when
// the pods that have a node or have succeeded are taken off, and at least 1. known is false if the
// group has no object.
func (r *Registry) Needed(key Key) (needed int, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.groups[key]
	if s == nil || s.group == nil {
		return 0, false
	}
	return max(1, s.group.MinMember-s.group.Succeeded-len(s.placed)), true
}

// Get returns a group and the number of its pods that have a node. known is false if the group has
// no object.
func (r *Registry) Get(key Key) (group Group, placed int, known bool) {
	if r == nil {
		return Group{Key: key}, 0, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.groups[key]
	if s == nil || s.group == nil {
		return Group{Key: key}, 0, false
	}
	return *s.group, len(s.placed), true
}

func (r *Registry) stateLocked(key Key) *state {
	s := r.groups[key]
	if s == nil {
		s = &state{placed: map[types.UID]placement{}}
		r.groups[key] = s
	}
	return s
}

// tidyLocked removes a group of which nothing is known any more.
func (r *Registry) tidyLocked(key Key, s *state) {
	if s.group == nil && len(s.placed) == 0 {
		delete(r.groups, key)
	}
}

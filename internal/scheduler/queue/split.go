// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"hash/fnv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

// Whole is the share of all pods: see Canary.Share.
const Whole = 10_000

// Canary is a second profile of a scheduler name, which gets a share of its pods. Pods of one owner
// get one profile, and so do the pods of a group, or of a tree of groups.
type Canary struct {
	Settings *ProfileSettings
	// Share is the share of owners, from 0 to Whole. Owners that have the canary keep it when the
	// share grows.
	Share int
	// Salt decides which owners come first.
	Salt string
}

// split divides the pods of a scheduler name among two profiles. Queue.mu guards share.
type split struct {
	salt   string
	share  int
	groups *podgroup.Registry
}

// placeOf returns the place of a pod's owner among all owners, from 0 to Whole-1.
func (s *split) placeOf(pod *corev1.Pod) int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.salt)) // a hash has no errors
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(s.groups.OwnerOf(pod)))
	return int(mixed(h.Sum64()) % Whole)
}

// mixed spreads the bits of a hash: those of FNV differ little for names that differ at the end.
func mixed(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// assignment is the part of an entry that decides which of two profiles it gets.
type assignment struct {
	// split is the one that place is about, nil if none was in force.
	split *split
	place int
}

// assignLocked gives a pod its place, and returns the rules that it has to be decided by, nil if it
// has no profile.
func (r *ruleSet) assignLocked(e *entry, pod *corev1.Pod) *profileRules {
	p := r.profiles[pod.Spec.SchedulerName]
	if p == nil || p.split == nil {
		e.assigned = assignment{}
		return p
	}
	e.assigned = assignment{split: p.split, place: p.split.placeOf(pod)}
	if e.assigned.place < p.split.share {
		return r.canaries[pod.Spec.SchedulerName]
	}
	return p
}

// reassignLocked gives a waiting pod its place again, whose group or tree has changed, and evaluates
// it again if it has to be decided by the other profile now. It returns false if the pod has left
// the queue.
func (q *Queue) reassignLocked(logger klog.Logger, e *entry) bool {
	if s := e.profile.split; s != nil && e.place != nowhere && e.place != InFlight {
		e.assigned = assignment{split: s, place: s.placeOf(e.pod)}
		return q.renewLocked(logger, e)
	}
	return true
}

// strayedLocked reports whether the share of the canary has changed so that the pod has to be
// decided by the other profile of its scheduler name. It returns false for a pod that has no place
// in the present split yet.
func (e *entry) strayedLocked() bool {
	s := e.profile.split
	return s != nil && e.assigned.split == s && (e.assigned.place < s.share) != e.profile.canary
}

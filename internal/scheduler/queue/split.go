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

// Takes reports whether the pods of an owner (podgroup.Registry.OwnerOf) get the canary.
func (c Canary) Takes(owner string) bool { return placeOf(c.Salt, owner) < c.Share }

// split divides the pods of a scheduler name among two profiles. Queue.mu guards share.
type split struct {
	salt   string
	share  int
	groups *podgroup.Registry
}

// shareLocked returns the share of the canary of the scheduler name, 0 if there is none.
func (p *profileRules) shareLocked() int {
	if p.split == nil {
		return 0
	}
	return p.split.share
}

func (s *split) placeOf(pod *corev1.Pod) int { return placeOf(s.salt, s.groups.OwnerOf(pod)) }

// placeOf returns the place of an owner among all owners, from 0 to Whole-1.
func placeOf(salt, owner string) int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(salt)) // a hash has no errors
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(owner))
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

// reassignLocked forgets the place of a waiting pod whose owner, group or tree may have changed,
// and evaluates it again if it has to be decided by the other profile now. It returns false if
// the pod has left the queue.
func (q *Queue) reassignLocked(logger klog.Logger, e *entry) bool {
	if e.profile.split == nil {
		return true
	}
	e.assigned = assignment{}
	return q.renewLocked(logger, e)
}

// reassignGroupLocked does so for the pods of a group, if its tree is another one now.
func (q *Queue) reassignGroupLocked(logger klog.Logger, m *members) {
	s := q.rules.profiles[m.schedulerName].split
	if s == nil || !m.anyLocked(func(e *entry) bool {
		return e.assigned.split == s && e.assigned.place != s.placeOf(e.pod)
	}) {
		return
	}
	for e := range m.entries {
		q.reassignLocked(logger, e)
	}
}

// strayedLocked reports whether a waiting pod has to be decided by the other profile of its
// scheduler name, because a canary is new or its share has changed. It gives the pod its place
// if it has none.
func (e *entry) strayedLocked() bool {
	s := e.profile.split
	if s == nil {
		return false
	}
	if e.assigned.split != s {
		e.assigned = assignment{split: s, place: s.placeOf(e.pod)}
	}
	return (e.assigned.place < s.share) != e.profile.canary
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"iter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// groupPatience is how long the gate of a group holds pods before these give way; see
// TendHeldGroups. A Job replaces a pod that is deleted within this time.
const groupPatience = 30 * time.Second

// TendHeldGroups looks at the groups whose gate has held pods for groupPatience, and at those whose
// object is gone. It must be called every second.
//
// A group that was complete at one time does with the pods that are ready; see Registry.Excuse. A
// tree does without groups of which no pod is there any more; see Registry.ExcuseAbsent. The pods
// of the others give up the nodes that they are nominated for: their group may stay incomplete for
// ever. Groups and trees with a pod that an Ungater gates are left alone: the victims of that pod
// are being evicted.
//
// TendHeldGroups returns the pods that give up their nodes, whose status still names them.
func (q *Queue) TendHeldGroups(logger klog.Logger) (ended []*corev1.Pod) {
	ended = q.tendHeldGroups(logger)
	for _, pod := range ended {
		q.NominationEnded(logger, pod, pod.Status.NominatedNodeName)
	}
	return ended
}

func (q *Queue) tendHeldGroups(logger klog.Logger) (ended []*corev1.Pod) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.clock.Now()
	for m := range q.holding {
		_, known := q.groups.Needed(m.Key)
		if m.held > 0 && !known {
			q.awaitedLocked(m) // the PodGroups may have been listed since
		}
		switch {
		case m.held == 0 && known:
			q.holding.Delete(m)
		case m.tendAt.After(now):
		case known && q.hasGatedLocked(m):
			m.tendAt = now.Add(groupPatience)
		case m.held > 0 && (q.groups.Excuse(m.Key, m.ready, m.readyPods()) || q.excuseAbsentLocked(m)):
			q.openGateLocked(logger, m)
		default:
			m.tendAt = now.Add(groupPatience)
			ended = append(ended, q.endNominationsLocked(m, known)...)
		}
	}
	return ended
}

// hasGatedLocked reports whether an Ungater gates a pod of a group, or of another one of its tree.
func (q *Queue) hasGatedLocked(of *members) bool {
	for m := range q.membersOfUnitLocked(of.Key) {
		if m.schedulerName != of.schedulerName {
			continue
		}
		for e := range m.entries {
			if e.staysGatedLocked() {
				return true
			}
		}
	}
	return false
}

// readyPods returns the pods of a group that are ready.
func (m *members) readyPods() iter.Seq[*corev1.Pod] {
	return func(yield func(*corev1.Pod) bool) {
		for e := range m.entries {
			if e.member.ready && !yield(e.pod) {
				return
			}
		}
	}
}

// endNominationsLocked ends the nominations of the pods of a group that its gate holds, or of all
// that wait, and returns these pods with the nodes that they were nominated for.
func (q *Queue) endNominationsLocked(m *members, heldOnly bool) (ended []*corev1.Pod) {
	if q.nominator.Empty() {
		return nil
	}
	for e := range m.entries {
		if node := q.nominator.NodeOf(e.pod.UID); node != "" && e.place != InFlight && (e.member.held || !heldOnly) {
			q.nominator.DeleteNominatedPodIfExists(e.pod)
			pod := *e.pod
			pod.Status.NominatedNodeName = node
			ended = append(ended, &pod)
		}
	}
	return ended
}

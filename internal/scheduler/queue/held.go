// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"container/list"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

const (
	// holdDelay is how long a pod is held before that is reported. Most pods are held briefly: the
	// pods of a group, and pods and their resource claims, are created one after the other.
	holdDelay = 10 * time.Second
	// holdInterval is the minimum time between two reports about a pod.
	holdInterval = time.Minute
)

// HoldReason is why a pod is held before its first attempt or the next one.
type HoldReason struct {
	// Plugin is the PreEnqueue plugin that refuses the pod, or podgroup.Gate. It is empty if a
	// plugin failed; Message names it then.
	Plugin string
	// Message is the message of the plugin, or its error.
	Message string
}

// Held is a pod that is held.
type Held struct {
	// Pod is the newest version that the queue received.
	Pod *corev1.Pod
	// NominationEnded means that the status of the pod names a node that is not kept free for it.
	NominationEnded bool
	HoldReason
}

// hold is the part of an entry that is about reports of why it is held. Queue.mu guards it.
type hold struct {
	// listed is the entry's place in Queue.held. nil: there is nothing to report.
	listed *list.Element
	// since is when the entry was listed.
	since time.Time
	// reported is what was reported last, at reportedAt, and has been the case since.
	reported   HoldReason
	reportedAt time.Time
}

// heldIn returns why a pod is held that is in a place, or is about to move there. It is the zero
// value for pods that are not held, and for those whose owners see the reason elsewhere: the API
// server writes the condition of pods with scheduling gates, and a pod that waits for its victims
// has the condition of the attempt that chose them. A pod whose resize is deferred is running; the
// condition that says so is the kubelet's.
func (e *entry) heldIn(place Place) HoldReason {
	switch {
	case len(e.pod.Spec.SchedulingGates) > 0 || e.resizes():
	case place == Gated && e.info.GatingPlugin != names.DefaultPreemption:
		return HoldReason{Plugin: e.info.GatingPlugin, Message: e.refusal}
	case place == ErrorBackoff && e.failures > 0:
		return HoldReason{Message: e.failure}
	}
	return HoldReason{}
}

// noteHoldLocked lists a pod that is held, or held for another reason than before, and removes one
// that is not held any more. It must be called when the pod moves, and when the reason changes.
//
// A pod is listed again if its last report was long ago: the condition may not have been written,
// and the caller of ReportHeld finds that out.
func (q *Queue) noteHoldLocked(e *entry, place Place) {
	h, reason := &e.hold, e.heldIn(place)
	now := q.clock.Now()
	switch {
	case reason == HoldReason{}:
		q.unlistLocked(e)
		h.reported = HoldReason{}
	case reason == h.reported && now.Sub(h.reportedAt) < holdInterval:
		q.unlistLocked(e)
	default:
		h.reported = HoldReason{} // if that is the case again, it is news
		if h.listed == nil {
			h.since, h.listed = now, q.held.PushBack(e)
		}
	}
}

// unlistLocked removes a pod from those whose hold is to be reported.
func (q *Queue) unlistLocked(e *entry) {
	if e.hold.listed != nil {
		q.held.Remove(e.hold.listed)
		e.hold.listed = nil
	}
}

// RepeatHeld makes ReportHeld report about a pod again, after a while, if it is still held: what
// was written about it got lost.
func (q *Queue) RepeatHeld(uid types.UID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.pods[uid]; e != nil {
		e.hold.reported = HoldReason{}
		q.noteHoldLocked(e, e.place)
	}
}

// ReportHeld calls report for pods that PreEnqueue plugins, or the gate of their group, have held
// for a while, the longest first: once for each reason that a pod is held for. It returns when
// report has returned true, which means that it wrote something, for limit pods, or there are no
// more. A call without pods to report costs next to nothing, however many are held.
//
// The queue's lock is held while report runs, in short turns. So the pod is still held when report
// returns, and what it passes to a writer comes before anything about the pod's next attempt.
// report must not block, and must not call the queue.
func (q *Queue) ReportHeld(limit int, report func(Held) bool) {
	reported := 0
	takeTurns(func() (more bool) {
		q.mu.Lock()
		defer q.mu.Unlock()
		return inTurn(turnPods, func() bool {
			e := q.nextHeldLocked()
			if e == nil || reported == limit {
				return false
			}
			q.unlistLocked(e)
			e.hold.reported, e.hold.reportedAt = e.heldIn(e.place), q.clock.Now()
			ended := e.pod.Status.NominatedNodeName != "" && q.nominator.NodeOf(e.pod.UID) == ""
			if report(Held{Pod: e.pod, NominationEnded: ended, HoldReason: e.hold.reported}) {
				reported++
			}
			return true
		})
	})
}

// nextHeldLocked returns the first pod whose hold may be reported now. Pods that were reported a
// short time ago are put back.
func (q *Queue) nextHeldLocked() *entry {
	now := q.clock.Now()
	for {
		first := q.held.Front()
		if first == nil {
			return nil
		}
		e := first.Value.(*entry)
		switch {
		case now.Sub(e.hold.since) < holdDelay:
			return nil
		case now.Sub(e.hold.reportedAt) >= holdInterval:
			return e
		}
		e.hold.since = now
		q.held.MoveToBack(first)
	}
}

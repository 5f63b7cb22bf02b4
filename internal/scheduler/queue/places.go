// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"container/heap"

	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// enqueueLocked moves a pod as close to being popped as its PreEnqueue plugins and its back-off
// allow.
func (q *Queue) enqueueLocked(logger klog.Logger, e *entry, s strategy, event string) {
	q.enqueueOneLocked(logger, e, s, event)
	q.openGateLocked(logger, e.member.of)
}

// enqueueOneLocked is enqueueLocked without the other pods of the group, which may be complete now.
func (q *Queue) enqueueOneLocked(logger klog.Logger, e *entry, s strategy, event string) {
	answer := q.runPreEnqueueLocked(logger, e)
	if answer == refused {
		e.missed = max(e.missed, s)
	} else {
		e.missed = stay
	}
	switch answer {
	case refused:
		q.moveLocked(logger, e, Gated, event)
	case failed:
		e.until = q.windows.begin(q.clock.Now().Add(e.profile.backoffAfter(e.failures)))
		q.moveLocked(logger, e, ErrorBackoff, event)
	case admitted:
		to := Active
		if s != immediately && q.backingOffLocked(e) {
			to = Backoff
			if s == afterFailure || len(e.info.UnschedulablePlugins) == 0 && len(e.info.PendingPlugins) == 0 {
				to = ErrorBackoff
			}
			e.until = q.backoffEndLocked(e)
		}
		q.moveLocked(logger, e, to, event)
	}
}

// moveLocked moves a pod, which may be new, to a place.
func (q *Queue) moveLocked(logger klog.Logger, e *entry, to Place, event string) {
	from := e.place
	q.noteHoldLocked(e, to)
	entityMoved := false
	if from != to {
		entityMoved = q.metrics.moved(e, to)
	}
	if from.awaitsEvent() && to.awaitsEvent() {
		e.place = to
		q.unschedulable.sort(e)
		return
	}
	if from == to {
		heap.Fix(q.heapOf(to), e.index)
		return
	}
	q.detachLocked(e)
	e.place = to
	if h := q.heapOf(to); h != nil {
		heap.Push(h, e)
	} else {
		e.checked = q.clock.Now()
		q.unschedulable.add(e)
	}
	if to == Active {
		q.noteFirstAttempt(e.info)
	}
	q.metrics.entered(to, event)
	if entityMoved {
		q.metrics.entityEntered(e, e.entityPlace(), event)
	}
	if to.poppable() {
		q.poppable.Signal()
	}
	if l := logger.V(5); l.Enabled() {
		l.Info("Pod moved to an internal scheduling queue", "pod", klog.KObj(e.pod), "event", event, "queue", to)
	}
}

// dropLocked removes a waiting pod from the queue.
func (q *Queue) dropLocked(e *entry) {
	q.detachLocked(e)
	q.metrics.moved(e, nowhere)
	q.metrics.rejected(e.info, -1)
	q.noteHoldLocked(e, nowhere)
	e.place = nowhere
	q.leaveGroupLocked(e)
	delete(q.pods, e.pod.UID)
}

// detachLocked removes a pod from the structure that holds it.
func (q *Queue) detachLocked(e *entry) {
	if h := q.heapOf(e.place); h != nil {
		heap.Remove(h, e.index)
	} else if e.place.awaitsEvent() {
		q.unschedulable.remove(e)
	}
}

// heapOf returns the heap of a place, nil for places without one.
func (q *Queue) heapOf(p Place) *podHeap {
	switch p {
	case Active:
		return &q.active
	case Backoff:
		return &q.backoff
	case ErrorBackoff:
		return &q.errorBackoff
	}
	return nil
}

// noteFirstAttempt starts the measurement of the pod's scheduling latency, which does not include
// the time in which it was gated.
func (q *Queue) noteFirstAttempt(info *schedframework.QueuedPodInfo) {
	if info.InitialAttemptTimestamp == nil {
		now := q.clock.Now()
		info.InitialAttemptTimestamp = &now
	}
}

// lessLocked is the queue sort. If the sort panics, the default order decides on the two pods.
// Among pods of equal priority, pods of half placed groups come first, if the sort is by priority.
func (q *Queue) lessLocked(a, b *entry) (less bool) {
	defer func() {
		if r := recover(); r != nil {
			q.reportPanicLocked(klog.Background(), "QueueSort", "", r)
			less = defaultLess(a.info, b.info)
		}
	}()
	if a.member.half != b.member.half && q.rules.byPriority &&
		corev1helpers.PodPriority(a.pod) == corev1helpers.PodPriority(b.pod) {
		return a.member.half
	}
	return q.rules.less(a.info, b.info)
}

// reorderLocked puts the heaps in order after the queue sort has changed.
func (q *Queue) reorderLocked() {
	heap.Init(&q.active)
	heap.Init(&q.backoff)
}

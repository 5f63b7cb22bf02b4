// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"container/heap"

	"k8s.io/klog/v2"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// enqueue puts a pod to where the PreEnqueue plugins and its back-off allow it to be: as close to
// being popped as that is. Requires mu.
func (q *Queue) enqueue(logger klog.Logger, e *entry, s strategy, event string) {
	answer := q.runPreEnqueue(logger, e)
	if answer == refused {
		e.swallowed = max(e.swallowed, s)
	} else {
		e.swallowed = stay
	}
	switch answer {
	case refused:
		q.move(logger, e, Gated, event)
	case failed:
		e.until = q.clock.Now().Add(e.profile.backoffAfter(e.failures)).Truncate(backoffWindow)
		q.move(logger, e, ErrorBackoff, event)
	case admitted:
		to := Active
		if s != immediately && q.backingOff(e) {
			to = Backoff
			if s == afterFailure || len(e.info.UnschedulablePlugins) == 0 && len(e.info.PendingPlugins) == 0 {
				to = ErrorBackoff
			}
			e.until = q.backoffEnd(e)
		}
		q.move(logger, e, to, event)
	}
}

// move puts a pod, which may be new, to a place. Requires mu.
func (q *Queue) move(logger klog.Logger, e *entry, to Place, event string) {
	from := e.place
	if from == to {
		if h := q.heapOf(to); h != nil {
			heap.Fix(h, e.index)
		}
		return
	}
	q.metrics.moved(e, to)
	if from.parked() && to.parked() {
		e.place = to
		return
	}
	q.detach(e)
	e.place = to
	if h := q.heapOf(to); h != nil {
		heap.Push(h, e)
	} else {
		e.checked = q.clock.Now()
		q.parked.add(e)
	}
	if to == Active {
		q.noteFirstAttempt(e.info)
	}
	q.metrics.entered(to, event)
	if to.poppable() {
		q.poppable.Signal()
	}
	if l := logger.V(5); l.Enabled() {
		l.Info("Pod moved to an internal scheduling queue", "pod", klog.KObj(e.pod), "event", event, "queue", to)
	}
}

// drop removes a waiting pod from the queue. Requires mu.
func (q *Queue) drop(e *entry) {
	q.detach(e)
	q.metrics.moved(e, nowhere)
	q.metrics.rejected(e.info, -1)
	e.place = nowhere
	delete(q.pods, e.pod.UID)
}

// detach takes a pod out of the structure that it is in. Requires mu.
func (q *Queue) detach(e *entry) {
	if h := q.heapOf(e.place); h != nil {
		heap.Remove(h, e.index)
	} else if e.place.parked() {
		q.parked.remove(e)
	}
}

// heapOf returns the heap that is a place, nil for places that are none.
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

// noteFirstAttempt starts the clock of the pod's scheduling latency, which does not count the time
// it was gated.
func (q *Queue) noteFirstAttempt(info *schedframework.QueuedPodInfo) {
	if info.InitialAttemptTimestamp == nil {
		now := q.clock.Now()
		info.InitialAttemptTimestamp = &now
	}
}

// less is the queue sort. A sort that panics is not used for the two pods at hand. Requires mu.
func (q *Queue) less(a, b *entry) (less bool) {
	defer func() {
		if r := recover(); r != nil {
			q.reportPanic(klog.Background(), "QueueSort", "", r)
			less = defaultLess(a.info, b.info)
		}
	}()
	return q.gen.less(a.info, b.info)
}

// reorder puts the heaps in order after the queue sort has changed.
func (q *Queue) reorder() {
	heap.Init(&q.active)
	heap.Init(&q.backoff)
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// Ungater is a PreEnqueue plugin that calls Queue.Ungate when it has no reason any more to gate a
// pod, unless an event shows that. After an event, the queue runs PreEnqueue for a pod that the
// plugin gates only if GatesUntilUngated returns false: many pods may wait, each for an event of
// its own.
type Ungater interface {
	fwk.PreEnqueuePlugin
	// GatesUntilUngated reports whether PreEnqueue would refuse the pod. It is called with the lock
	// of the queue held.
	GatesUntilUngated(pod *corev1.Pod) bool
}

// Awaiter is a PreEnqueue plugin for whose pods the end of certain other pods matters, wherever
// these are.
type Awaiter interface {
	fwk.PreEnqueuePlugin
	// AwaitedBy returns pods that may wait for the end of a pod. It is called with the lock of the
	// queue held.
	AwaitedBy(pod types.UID) []types.UID
}

// Ungate reports that a PreEnqueue plugin has no reason any more to gate a pod, where no event in
// the cluster shows that. If that plugin gates the pod, the PreEnqueue plugins run again, and the
// pod moves according to the events that came in while it was gated. Other pods stay where they
// are: they have missed no event.
func (q *Queue) Ungate(logger klog.Logger, uid types.UID, plugin string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.pods[uid]; e != nil && q.renewLocked(logger, e) && e.place == Gated && e.info.GatingPlugin == plugin {
		q.enqueueLocked(logger, e, e.missed, schedframework.ForceActivate)
	}
}

// RetryLater reports that asynchronous work of the pod's last attempt failed, so that the event
// that the pod waits for may never come. The pod is retried when its back-off is over, and not
// before, as after an error; a pod in flight, when it comes back. Pods that will be retried anyway
// stay where they are.
func (q *Queue) RetryLater(logger klog.Logger, uid types.UID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.pods[uid]
	switch {
	case e == nil || !q.renewLocked(logger, e):
	case e.place == InFlight:
		e.flight.failed = true
	case e.place.awaitsEvent():
		q.enqueueLocked(logger, e, afterFailure, schedframework.ForceActivate)
	}
}

// staysGatedLocked reports whether a pod is gated by an Ungater that still gates it.
func (e *entry) staysGatedLocked() bool {
	if e.place != Gated {
		return false
	}
	pl := e.profile.ungaters[e.info.GatingPlugin]
	return pl != nil && pl.GatesUntilUngated(e.pod)
}

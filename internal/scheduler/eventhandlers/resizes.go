// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package eventhandlers

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// The handlers of assigned pods call these functions after they have changed the cache, so that an
// attempt at a resize counts the pod as it is now. They do nothing if the queue takes no such pods.

// resizeAdded queues an assigned pod whose resize is deferred.
func (h *handlers) resizeAdded(pod *corev1.Pod) {
	if !h.queue.DeferredResizes() || !podfields.ResizeDeferred(pod) {
		return
	}
	start := time.Now()
	h.queue.Add(eventLogger(), pod)
	observeSince(start, schedframework.EventUnscheduledPodAdd)
}

// resizeUpdated tells the queue about an assigned pod whose resize is, or was, deferred. A pod
// whose resize is done, was withdrawn or is infeasible leaves the queue, and so does one that
// terminates.
func (h *handlers) resizeUpdated(oldPod, newPod *corev1.Pod) {
	switch {
	case !h.queue.DeferredResizes():
	case !podfields.ResizeDeferred(newPod):
		if podfields.ResizeDeferred(oldPod) {
			h.resizeDeleted(newPod)
		}
	case !podfields.ResizeDeferred(oldPod):
		h.resizeAdded(newPod)
	case oldPod.ResourceVersion != newPod.ResourceVersion: // a re-list must not queue a pod in its cycle again
		h.queue.Update(eventLogger(), oldPod, newPod)
	}
}

// resizeDeleted takes an assigned pod out of the queue.
func (h *handlers) resizeDeleted(pod *corev1.Pod) {
	if !h.queue.DeferredResizes() {
		return
	}
	start := time.Now()
	h.queue.Delete(eventLogger(), pod)
	observeSince(start, schedframework.EventUnscheduledPodDelete)
}

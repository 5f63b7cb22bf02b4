// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// Ungate tells that a PreEnqueue plugin has no reason any more to gate a pod, where no event in the
// cluster would tell. If the pod is gated by that plugin, the plugins are asked again, and the pod
// goes to where it would be by what came in while it was gated. Any other pod stays where it is:
// nothing has come in that it missed.
func (q *Queue) Ungate(logger klog.Logger, uid types.UID, plugin string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.pods[uid]; e != nil && q.current(logger, e) && e.place == Gated && e.info.GatingPlugin == plugin {
		q.enqueueLocked(logger, e, e.missed, schedframework.ForceActivate)
	}
}

// RetryLater tells that what the last attempt at a pod has set in motion has failed, so that the
// pod may wait for an event that does not come. The pod is tried again when its back-off is over,
// and not before: it counts as one that met an error. One in flight is, when it comes back. Pods
// that are to be tried again anyway stay where they are.
func (q *Queue) RetryLater(logger klog.Logger, uid types.UID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.pods[uid]
	switch {
	case e == nil || !q.current(logger, e):
	case e.place == InFlight:
		e.flight.failed = true
	case e.place.awaitsEvent():
		q.enqueueLocked(logger, e, afterFailure, schedframework.ForceActivate)
	}
}

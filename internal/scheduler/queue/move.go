// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// Move reports an event in the cluster: the queue requeues the Unschedulable and Gated pods that
// the event may help, and keeps the event for the pods in flight. oldObj is nil for an added
// object, newObj for a deleted one. precheck, if not nil, selects the waiting pods to consider; it
// is called with the queue's lock held.
//
// A wildcard event concerns all pods or, if newObj is a pod, that pod only.
func (q *Queue) Move(logger klog.Logger, event fwk.ClusterEvent, oldObj, newObj any, precheck func(*corev1.Pod) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.moveOnEventLocked(logger, event, oldObj, newObj, precheck)
}

// moveOnEventLocked is Move for callers that hold mu.
func (q *Queue) moveOnEventLocked(logger klog.Logger, event fwk.ClusterEvent, oldObj, newObj any, precheck func(*corev1.Pod) bool) {
	if !q.rules.interested(event) {
		return
	}
	ev := clusterEvent{event: event, oldObj: oldObj, newObj: newObj}
	label := "" // set when the first pod moves; most events move none
	for i := len(q.unschedulable.entries) - 1; i >= 0; i-- {
		e := q.unschedulable.entries[i]
		if e.outdatedLocked() {
			continue
		}
		if precheck != nil && !precheck(e.pod) {
			continue
		}
		if e.place == Gated && !ungates(e, event) {
			continue
		}
		s := q.worthRequeuingLocked(logger, e, &ev)
		if s == stay {
			continue
		}
		if label == "" {
			label = event.Label()
		}
		q.enqueueLocked(logger, e, s, label)
	}
	q.inFlight.record(ev)
}

// NominationEnded reports that a pod no longer holds its nominated node, which its status names.
// Pods of its priority and below had to take it into account; for them this is like the deletion of
// an assigned pod. Pods whose scheduler name has no profile are not taken into account by anyone.
func (q *Queue) NominationEnded(logger klog.Logger, pod *corev1.Pod) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.rules.profiles[pod.Spec.SchedulerName] != nil {
		q.nominationEndedLocked(logger, pod)
	}
}

// nominationEndedLocked is NominationEnded, whether or not the pod's scheduler name has a profile.
func (q *Queue) nominationEndedLocked(logger klog.Logger, pod *corev1.Pod) {
	priority := corev1helpers.PodPriority(pod)
	q.moveOnEventLocked(logger, schedframework.EventAssignedPodDelete, pod, nil, func(other *corev1.Pod) bool {
		return corev1helpers.PodPriority(other) <= priority
	})
}

// ungates reports whether the plugin that gates the pod registered for the event. A wildcard
// matches every plugin.
func ungates(e *entry, event fwk.ClusterEvent) bool {
	return schedframework.ClusterEventIsWildCard(event) || schedframework.MatchAnyClusterEvent(event, e.info.GatingPluginEvents)
}

// Activate moves the given pods to Active without waiting for their back-off; gated pods only if
// their PreEnqueue plugins admit them. Pods in flight are retried when they come back. Pods that
// are not in the queue are ignored, and so are the keys of the map.
func (q *Queue) Activate(logger klog.Logger, pods map[string]*corev1.Pod) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, pod := range pods {
		e := q.pods[pod.UID]
		if e == nil || !q.renewLocked(logger, e) {
			continue
		}
		switch e.place {
		case InFlight:
			q.inFlight.record(clusterEvent{event: schedframework.EventForceActivate, newObj: pod})
		case Backoff:
			q.moveLocked(logger, e, Active, schedframework.ForceActivate)
		case ErrorBackoff, Unschedulable, Gated:
			if e.place == ErrorBackoff && e.failures == 0 {
				q.moveLocked(logger, e, Active, schedframework.ForceActivate)
				continue
			}
			q.enqueueLocked(logger, e, immediately, schedframework.ForceActivate)
		}
	}
}

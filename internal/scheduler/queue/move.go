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

// Move tells the queue of an event in the cluster: Unschedulable and Gated pods that it may help
// are queued again, and it is kept for the pods in flight. oldObj is nil for what was added, newObj
// for what was deleted. precheck, if not nil, picks the waiting pods that are looked at; it is
// called under the queue's lock.
//
// A wildcard event concerns all pods, or, if newObj is a pod, that one only.
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
	label := "" // made when the first pod moves; most events move none
	for i := len(q.unschedulable.entries) - 1; i >= 0; i-- {
		e := q.unschedulable.entries[i]
		if e.outdated() {
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

// NominationEnded tells the queue that a pod does not hold the room any more that it was nominated
// for: the pods that had to reckon with it, those of its priority and below, take it for the
// deletion of an assigned pod. The pod's status names the node. Nobody reckons with pods of names
// that have no profile.
func (q *Queue) NominationEnded(logger klog.Logger, pod *corev1.Pod) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.rules.profiles[pod.Spec.SchedulerName] != nil {
		q.nominationEndedLocked(logger, pod)
	}
}

// nominationEndedLocked is NominationEnded, whether or not the pod's name has a profile.
func (q *Queue) nominationEndedLocked(logger klog.Logger, pod *corev1.Pod) {
	priority := corev1helpers.PodPriority(pod)
	q.moveOnEventLocked(logger, schedframework.EventAssignedPodDelete, pod, nil, func(other *corev1.Pod) bool {
		return corev1helpers.PodPriority(other) <= priority
	})
}

// AssignedPodAdded tells the queue that a pod now runs, or is about to.
func (q *Queue) AssignedPodAdded(logger klog.Logger, pod *corev1.Pod) {
	q.Move(logger, schedframework.EventAssignedPodAdd, nil, pod, nil)
}

// AssignedPodUpdated tells the queue of one change, event, of a pod that runs.
func (q *Queue) AssignedPodUpdated(logger klog.Logger, oldPod, newPod *corev1.Pod, event fwk.ClusterEvent) {
	q.Move(logger, event, oldPod, newPod, nil)
}

// ungates says whether an event interests the plugin that gates the pod. A wildcard interests all.
func ungates(e *entry, event fwk.ClusterEvent) bool {
	return schedframework.ClusterEventIsWildCard(event) || schedframework.MatchAnyClusterEvent(event, e.info.GatingPluginEvents)
}

// Activate moves the given pods to Active, without waiting for their back-off; gated ones only if
// their gate is open. Those in flight are tried again when they come back. The keys do not matter;
// pods that the queue does not know are ignored.
func (q *Queue) Activate(logger klog.Logger, pods map[string]*corev1.Pod) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, pod := range pods {
		e := q.pods[pod.UID]
		if e == nil || !q.current(logger, e) {
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

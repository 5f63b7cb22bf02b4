// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// Requeue gives back a popped pod that was not scheduled, and releases it on every path. Before the
// call, the caller records in p which plugins refused the pod (UnschedulablePlugins,
// PendingPlugins); if there are none, the attempt met an error. p may be a copy of the popped item,
// and Done may have released it already. The queue owns p afterwards.
//
// Requeue replaces the pod by its newest version, so the caller may pass one with an assumed node.
//
// kept reports whether the pod waits in the queue. If kept is false and err is nil, no profile has
// its scheduler name any more. Otherwise err wraps ErrGone, or ErrAlreadyQueued with kept set.
//
// If the pod is kept, nominating takes effect as in AddNominatedPod, in the same critical section:
// no other goroutine can pop the pod in between, and the nomination cannot outlive the attempt that
// made it. If nominating is nil or of ModeNoop, the nomination does not change, unless the pod's
// status names another node since it was popped.
//
// A closed queue takes no pod, but reports it as kept: the next leader has it in its own queue.
func (q *Queue) Requeue(
	logger klog.Logger, p *schedframework.QueuedPodInfo, nominating *fwk.NominatingInfo,
) (kept bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	popped := p.Pod
	kept, err = q.requeueLocked(logger, p)
	switch {
	case !kept || err != nil:
	case nominating.Mode() == fwk.ModeOverride:
		q.nominator.addQueueLocked(logger, p.PodInfo, nominating)
	default:
		q.nominator.updateQueueLocked(logger, popped, p.PodInfo)
	}
	return kept, err
}

// requeueLocked is Requeue for callers that hold mu.
func (q *Queue) requeueLocked(logger klog.Logger, p *schedframework.QueuedPodInfo) (kept bool, err error) {
	if q.closed {
		return true, nil
	}
	pod := p.Pod
	e := q.pods[pod.UID]
	if e != nil && (e.place != InFlight || !sameLife(e, p)) {
		return true, fmt.Errorf("%v: %w", klog.KObj(pod), ErrAlreadyQueued)
	}
	newest, reason := q.latest(pod)
	if reason == "" && e != nil && e.flight.deleted {
		reason = "deleted"
	}
	if reason != "" {
		q.releaseLocked(e)
		q.nominator.DeleteNominatedPodIfExists(pod)
		return false, fmt.Errorf("%v: %w (%s)", klog.KObj(pod), ErrGone, reason)
	}
	if newest == nil && e != nil {
		newest = e.pod
	}
	if newest == nil {
		newest = pod
	}
	if q.rules.profiles[newest.Spec.SchedulerName] == nil {
		q.releaseLocked(e)
		return false, nil
	}
	if e == nil {
		e = &entry{}
		q.pods[newest.UID] = e
	}
	q.keepLocked(logger, e, p, newest, q.rules.assignLocked(e, newest))
	return true, nil
}

// keepLocked queues a pod that was in flight, in the place that the events since its Pop decide.
func (q *Queue) keepLocked(logger klog.Logger, e *entry, p *schedframework.QueuedPodInfo, pod *corev1.Pod,
	profile *profileRules) {
	if p.Pod != pod {
		// A new PodInfo: the old one may be in the cache, and its computed resources may be
		// outdated.
		p.PodInfo, _ = schedframework.NewPodInfo(pod) // about errors see newEntry
	}
	reassigned := e.place == InFlight && e.profile != profile
	e.info, e.pod, e.profile = p, pod, profile
	q.rejoinGroupLocked(e)
	p.Timestamp = q.clock.Now()
	p.BackoffExpiration = time.Time{}
	p.WasFlushedFromUnschedulable = false
	e.refusal, p.GatingPlugin, p.GatingPluginEvents = "", "", nil
	// The caller still reads these sets for its reports, while the queue adds gating plugins.
	p.UnschedulablePlugins, p.PendingPlugins = p.UnschedulablePlugins.Clone(), p.PendingPlugins.Clone()
	if len(p.UnschedulablePlugins) == 0 && len(p.PendingPlugins) == 0 {
		p.ConsecutiveErrorsCount++
	} else {
		p.UnschedulableCount++
		p.ConsecutiveErrorsCount = 0
	}
	q.metrics.rejected(p, 1)
	q.nominator.refreshQueueLocked(logger, p.PodInfo)

	// The decision needs the events kept for the pod. They must be released before the pod becomes
	// visible to Pop.
	s := immediately // a refusal by another profile's plugins does not count
	if !reassigned {
		s = q.inFlightStrategyLocked(logger, e)
	}
	q.endFlightLocked(e)
	if s == stay {
		e.member.set(true, false)
		q.moveLocked(logger, e, Unschedulable, schedframework.ScheduleAttemptFailure)
		q.openGateLocked(logger, e.member.of)
		return
	}
	q.enqueueLocked(logger, e, s, schedframework.ScheduleAttemptFailure)
}

// inFlightStrategyLocked decides how to requeue a pod, by what happened while it was in flight.
func (q *Queue) inFlightStrategyLocked(logger klog.Logger, e *entry) strategy {
	if e.place != InFlight {
		// Done released it before, at a point where no plugin could refuse it any more, or no
		// events were kept for it.
		return afterBackoff
	}
	result := stay
	if e.flight.failed {
		result = afterFailure
	}
	events, complete := q.inFlight.eventsSince(e)
	if !complete || e.flight.groupChanged {
		result = afterBackoff
	}
	info := e.info
	if len(info.UnschedulablePlugins) == 0 && len(info.PendingPlugins) == 0 {
		result = afterBackoff
	}
	for i := range events {
		ev := &events[i]
		if result == afterBackoff && len(info.PendingPlugins) == 0 {
			continue // no hint can return a stronger strategy
		}
		result = max(result, q.worthRequeuingLocked(logger, e, ev))
		if q.awaitsEndLocked(e, ev) {
			result = max(result, afterBackoff)
		}
		if result == immediately {
			break
		}
	}
	return result
}

// sameLife reports whether p was popped in the entry's present stay in the queue. A pod that Done
// released and that an update queued again has a new stay, while p of its former one may still come
// back.
func sameLife(e *entry, p *schedframework.QueuedPodInfo) bool {
	return p.InitialAttemptTimestamp == nil || e.flight.started.Equal(*p.InitialAttemptTimestamp)
}

// releaseLocked removes a pod in flight from the queue. e may be nil.
func (q *Queue) releaseLocked(e *entry) {
	if e != nil {
		q.endFlightLocked(e)
		q.leaveGroupLocked(e)
		delete(q.pods, e.pod.UID)
	}
}

// endFlightLocked stops keeping events for the pod.
func (q *Queue) endFlightLocked(e *entry) {
	if e.place == InFlight {
		q.inFlight.remove(e)
		e.place = nowhere
		e.flight = flight{}
	}
}

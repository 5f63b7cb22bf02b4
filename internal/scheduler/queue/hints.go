// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

// measuredHints is the number of hint calls measured per event. With thousands of unschedulable
// pods measuring would cost more than the calls, and the recorder drops observations in such
// numbers.
const measuredHints = 100

// strategy is how an event requeues a pod. Larger values win.
type strategy int

const (
	// stay: the event does not help the pod, which stays where it is.
	stay strategy = iota
	// afterFailure: the pod moves to ErrorBackoff, as after an error: it is retried when its
	// back-off is over, and not before.
	afterFailure
	// afterBackoff: the pod is retried when its back-off is over.
	afterBackoff
	// immediately: the pod is retried without back-off. It did not fail; a plugin had it pending.
	immediately
)

// ended returns the pod that has left its node if the event is its end, nil for any other event. It
// helps the pods that are nominated for the node, and those whose victim it is, whatever the hints
// say: as long as such a pod ends, preemption does not look for another node, although plugins for
// which that pod does not matter may refuse this one.
func (ev *clusterEvent) ended() *corev1.Pod {
	if ev.event.Resource != schedframework.EventAssignedPodDelete.Resource ||
		ev.event.ActionType != schedframework.EventAssignedPodDelete.ActionType {
		return nil
	}
	if pod, ok := ev.oldObj.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
		return pod
	}
	return nil
}

// awaitsEndLocked reports whether an event is the end of a pod for which preemption waits.
func (q *Queue) awaitsEndLocked(e *entry, ev *clusterEvent) bool {
	pod := ev.ended()
	return pod != nil && (pod.Spec.NodeName == q.nominator.NodeOf(e.pod.UID) ||
		slices.ContainsFunc(e.profile.awaiters, func(pl Awaiter) bool {
			return slices.Contains(pl.AwaitedBy(pod.UID), e.pod.UID)
		}))
}

// worthRequeuingLocked decides whether an event may help the pod, by the hints of the plugins that
// refused it.
func (q *Queue) worthRequeuingLocked(logger klog.Logger, e *entry, ev *clusterEvent) strategy {
	info := e.info
	switch {
	case len(info.UnschedulablePlugins) == 0 && len(info.PendingPlugins) == 0:
		// No plugin refused the pod: the attempt met an error.
		return afterBackoff
	case schedframework.ClusterEventIsWildCard(ev.event):
		// A wildcard concerns all pods, or only the pod that it carries.
		if ev.newObj != nil {
			if pod, ok := ev.newObj.(*corev1.Pod); !ok || pod.UID != e.pod.UID {
				return stay
			}
		}
		return afterBackoff
	}
	result := stay
	hints := e.profile.matching(ev.event)
	for i := range hints {
		hint := &hints[i]
		pending := info.PendingPlugins.Has(hint.Plugin)
		if !pending && !info.UnschedulablePlugins.Has(hint.Plugin) {
			continue
		}
		if q.callHintLocked(logger, hint, e.pod, ev) != fwk.Queue {
			continue
		}
		if pending {
			return immediately
		}
		result = afterBackoff
		if len(info.PendingPlugins) == 0 {
			return result // no other hint can return a stronger one
		}
	}
	return result
}

// callHintLocked calls the hint of one plugin, and measures the first calls per event.
func (q *Queue) callHintLocked(logger klog.Logger, hint *Hint, pod *corev1.Pod, ev *clusterEvent) fwk.QueueingHint {
	if hint.Fn == nil {
		return fwk.Queue
	}
	if q.metrics.async == nil || ev.measured >= measuredHints {
		result, _ := q.runHintLocked(logger, hint, pod, ev)
		return result
	}
	ev.measured++
	start := q.clock.Now()
	result, label := q.runHintLocked(logger, hint, pod, ev)
	q.metrics.async.ObserveQueueingHintDurationAsync(hint.Plugin, ev.event.Label(), label,
		q.clock.Since(start).Seconds())
	return result
}

// runHintLocked calls the hint. It returns the result and its label in metrics. An error or a panic
// counts as Queue: a needless attempt is better than a stranded pod.
func (q *Queue) runHintLocked(
	logger klog.Logger, hint *Hint, pod *corev1.Pod, ev *clusterEvent,
) (result fwk.QueueingHint, label string) {
	defer func() {
		if r := recover(); r != nil {
			q.reportPanicLocked(logger, "QueueingHint", hint.Plugin, r)
			result, label = fwk.Queue, schedmetrics.QueueingHintResultError
		}
	}()
	result, err := hint.Fn(logger, pod, ev.oldObj, ev.newObj)
	switch {
	case err != nil:
		q.reportHintErrorLocked(logger, hint.Plugin, pod, ev, err)
		return fwk.Queue, schedmetrics.QueueingHintResultError
	case result == fwk.Queue:
		return fwk.Queue, schedmetrics.QueueingHintResultQueue
	}
	return fwk.QueueSkip, schedmetrics.QueueingHintResultQueueSkip
}

// reportHintErrorLocked logs an error of a hint: the first error of a plugin since the last reload
// always, and later ones at a higher verbosity, since a hint that fails for one pod tends to fail
// for all.
func (q *Queue) reportHintErrorLocked(logger klog.Logger, plugin string, pod *corev1.Pod, ev *clusterEvent, err error) {
	first := q.firstReportLocked("QueueingHintError", plugin)
	if !first && !logger.V(4).Enabled() {
		return
	}
	logger.Error(err, "A queueing hint failed; the pod is retried", "plugin", plugin, "event", ev.event.Label(),
		"pod", klog.KObj(pod), "oldObj", named(ev.oldObj), "newObj", named(ev.newObj))
}

// named returns the representation of an object in the log.
func named(obj any) any {
	if o, ok := obj.(klog.KMetadata); ok {
		return klog.KObj(o)
	}
	return fmt.Sprintf("%T", obj)
}

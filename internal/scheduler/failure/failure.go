// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package failure handles scheduling attempts that did not end in a bound pod.
//
//	scheduling cycle --\
//	                    Handler.Handle --> queue: requeue with the rejector plugins, and nomination
//	binding cycle -----/              \--> Event on the pod
//	                                   \-> decisionlog: the message of the decision
//	                                   \-> podstatus: condition and nominated node
//
// A pod whose resize is deferred is requeued, and nothing is written: it runs on its node, and its
// kubelet reports the resize.
//
// A pod that is no longer there to be scheduled is released instead. A pod whose profile is gone
// gets an Event about that.
//
// Pods that never come to an attempt, because PreEnqueue plugins hold them, get an Event and a
// condition as well, where kube-scheduler writes nothing:
//
//	queue.ReportHeld, once a second --> Handler.ReportHeld --> Event, podstatus
package failure

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/lease"
	"github.com/livesched/livesched/internal/scheduler/algorithm"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/internal/scheduler/podfields"
	"github.com/livesched/livesched/internal/scheduler/podstatus"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/internal/truncate"
)

// Attempt is a scheduling attempt that did not end in a bound pod.
type Attempt struct {
	ProfileName string
	// Recorder writes Events in the name of the profile.
	Recorder events.EventRecorderLogger
	// Pod is the queue's item. It is popped and not released yet, unless its binding cycle has
	// passed Permit.
	Pod *schedframework.QueuedPodInfo
	// InGroup means that the pod was to be placed together with others.
	InGroup bool
	// Resizes means that the pod is on its node, and was to get room for its resize there.
	Resizes bool
	// Status is a refusal by plugins, or an error.
	Status *fwk.Status
	// Nominating changes the pod's nominated node; nil leaves it as it is.
	Nominating *fwk.NominatingInfo
	// Nominated is the node of a nomination that the attempt has taken from the pod, "" if it has
	// not.
	Nominated string
	// Start is when the attempt began.
	Start time.Time
	// Decision is the number of the recorded decision. 0: it is not recorded.
	Decision decisionlog.Number
}

// ClearNomination removes a nomination, because the attempt that relied on it failed.
var ClearNomination = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride}

// Handler handles failed attempts. The scheduling loop and binding goroutines call it concurrently.
// All fields but Decisions and Term are required.
type Handler struct {
	Queue *queue.Queue
	// Pods reads the informers' cache.
	Pods corev1listers.PodLister
	// Statuses writes conditions.
	Statuses *podstatus.Writer
	// Recorder returns the recorder of a scheduler name.
	Recorder func(schedulerName string) events.EventRecorderLogger
	// Decisions has the recorded decisions.
	Decisions *decisionlog.Log
	// Term is the term of this replica as the leader, nil without leader election.
	Term     *lease.Term
	stopping atomic.Bool
}

// Stop makes the Handler ignore errors from now on: an attempt that the end of the process
// interrupts has not failed, and the next leader schedules the pod.
func (h *Handler) Stop() { h.stopping.Store(true) }

// Handle gives the pod back to the queue, or releases it if it is gone, bound, or without a profile
// now. It reports the reason in an Event and in the pod's condition, in kube-scheduler's words. It
// releases the pod on every path.
func (h *Handler) Handle(ctx context.Context, a Attempt) {
	logger := klog.FromContext(ctx)
	pod := a.Pod.Pod // once the pod is back in the queue, a.Pod belongs to the queue
	if h.stopping.Load() && !a.Status.IsRejected() {
		logger.V(2).Info("Leaving the pod to the next leader", "pod", klog.KObj(pod), "reason", a.Status.Message())
		h.Queue.Done(pod.UID)
		return
	}
	if newest, err := h.Pods.Pods(pod.Namespace).Get(pod.Name); err == nil && newest.UID == pod.UID {
		pod = newest
	}
	if h.overtaken(&a) {
		logger.V(2).Info("The lease was not renewed in time; retrying without a report", "pod", klog.KObj(pod),
			"reason", a.Status.Message())
		a.Pod.ClearRejectorPlugins() // so it is retried after its backoff
		a.Nominating = nil
		h.requeue(logger, &a, pod)
		return
	}
	reason := a.observe()
	message := a.Status.Message()
	h.Decisions.Explain(a.Decision, message)
	a.noteRejectors(ctx)
	refresh := a.refreshes()
	if a.Resizes { // it has its node
		a.Nominating = nil
	}
	if !h.requeue(logger, &a, pod) || a.Resizes {
		return
	}

	condition := unscheduledCondition(pod, reason, message)
	if !refresh && a.Nominating == nil && h.differsInNumbers(pod, condition) {
		return
	}
	a.Recorder.WithLogger(logger).Eventf(pod, nil, corev1.EventTypeWarning, "FailedScheduling", "Scheduling",
		"%s", truncate.ToBytes(message, validation.NoteLengthLimit))
	h.Statuses.Write(podstatus.Update{Pod: pod, Condition: condition, Nominating: a.Nominating})
}

// requeue gives the pod back to the queue, and reports whether the queue keeps it. pod is its
// newest version.
func (h *Handler) requeue(logger klog.Logger, a *Attempt, pod *corev1.Pod) (kept bool) {
	nominator := h.Queue.Nominator()
	nominated := cmp.Or(a.Nominated, nominator.NodeOf(pod.UID))
	// Requeue and nominate in one call: as soon as the pod is queued, its next attempt may begin,
	// whose nomination must not be overwritten.
	kept, err := h.Queue.Requeue(logger, a.Pod, a.Nominating)
	if endsUnwritten(pod, nominated, nominator.NodeOf(pod.UID)) {
		h.Queue.NominationEnded(logger, pod, nominated)
	}
	return h.requeued(logger, pod, kept, err)
}

// endsUnwritten reports whether a nomination has ended that the status of the pod does not name
// yet, so that no informer reports the end of it. The nominator has had the node before, and now.
func endsUnwritten(pod *corev1.Pod, before, now string) bool {
	return before != "" && before != now && before != pod.Status.NominatedNodeName
}

// overtaken reports whether the attempt is no reason to report about the pod, because another
// replica may lead by now. This one keeps the pod in its queue, in case it leads on.
func (h *Handler) overtaken(a *Attempt) bool {
	return h.Term.Check() != nil || errors.Is(a.Status.AsError(), lease.ErrOver)
}

// observe counts the attempt and returns the reason of its condition.
func (a *Attempt) observe() (reason string) {
	seconds := schedmetrics.SinceInSeconds(a.Start)
	if a.Status.IsRejected() {
		schedmetrics.PodUnschedulable(a.ProfileName, seconds)
		return corev1.PodReasonUnschedulable
	}
	schedmetrics.PodScheduleError(a.ProfileName, seconds)
	return corev1.PodReasonSchedulerError
}

// noteRejectors writes the plugins that refused the pod into the queue's item: their queueing hints
// decide when the pod comes back. An error names no plugin, and the pod comes back after its
// backoff.
func (a *Attempt) noteRejectors(ctx context.Context) {
	logger := klog.FromContext(ctx)
	a.Pod.ClearRejectorPlugins()
	err := a.Status.AsError()
	var fitError *schedframework.FitError
	switch {
	case errors.As(err, &fitError):
		a.Pod.UnschedulablePlugins = fitError.Diagnosis.UnschedulablePlugins
		a.Pod.PendingPlugins = fitError.Diagnosis.PendingPlugins
		logger.V(2).Info("The pod fits nowhere; waiting", "pod", klog.KObj(a.Pod.Pod), "err", err)
	case errors.Is(err, algorithm.ErrNoNodesAvailable):
		logger.V(2).Info("There are no nodes; waiting", "pod", klog.KObj(a.Pod.Pod))
	default:
		utilruntime.HandleErrorWithContext(ctx, err, "Scheduling the pod failed; retrying", "pod", klog.KObj(a.Pod.Pod))
	}
}

// requeued reports whether the queue has kept a pod that was given back to it. If it has not, the
// pod is gone, bound after all, or its profile was removed during the attempt.
func (h *Handler) requeued(logger klog.Logger, pod *corev1.Pod, kept bool, err error) bool {
	switch {
	case errors.Is(err, queue.ErrGone), errors.Is(err, queue.ErrAlreadyQueued):
		logger.V(2).Info("The pod is not retried", "pod", klog.KObj(pod), "reason", err)
	case err != nil:
		utilruntime.HandleErrorWithLogger(logger, err, "Requeueing the pod failed", "pod", klog.KObj(pod))
	case !kept:
		h.Dropped(logger, pod)
	}
	return kept
}

// Dropped reports in an Event that a pod has left the queue because its profile is gone. A pod that
// runs, and whose resize is deferred, lacks nothing that a user must know of.
func (h *Handler) Dropped(logger klog.Logger, pod *corev1.Pod) {
	name := pod.Spec.SchedulerName
	if podfields.ResizeDeferred(pod) {
		logger.V(2).Info("The profile is gone; no room is made for the resize of the pod", "pod", klog.KObj(pod),
			"schedulerName", name)
		return
	}
	h.Recorder(name).WithLogger(logger).Eventf(pod, nil, corev1.EventTypeWarning, "FailedScheduling", "Scheduling",
		"the SchedulerProfile with scheduler name %q is gone; the pod waits until there is one again", name)
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/livesched/livesched/internal/scheduler/algorithm"
	"github.com/livesched/livesched/internal/scheduler/podstatus"
)

// failure is a scheduling attempt that did not end in a bound pod.
type failure struct {
	profileName string
	recorder    events.EventRecorderLogger
	// pod is the queue's item, popped and not released yet unless its binding cycle came as far as
	// PreBind.
	pod *schedframework.QueuedPodInfo
	// status says what went wrong: a refusal by plugins, or an error.
	status *fwk.Status
	// nominating says what becomes of the pod's nominated node; nil leaves it as it is.
	nominating *fwk.NominatingInfo
	// start is when the attempt began.
	start time.Time
}

// clearNomination takes back a nomination: the attempt that relied on it failed.
var clearNomination = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride}

// eventStatusNotWritten has one pod tried again whose owner could not be told why it waits.
var eventStatusNotWritten = fwk.ClusterEvent{Resource: fwk.WildCard, ActionType: fwk.All, CustomLabel: "StatusNotWritten"}

// handleFailure gives the pod back to the queue, or lets go of it if it is gone, bound or nobody's
// any more, and tells its owner why by an Event and a condition, in kube-scheduler's words. It is
// called from the scheduling loop and from binding goroutines, and releases the pod on every path.
func (s *Scheduler) handleFailure(ctx context.Context, f *failure) {
	logger := klog.FromContext(ctx)
	if s.stopping.Load() && !f.status.IsRejected() {
		// What was cut short has not failed: the next leader goes on with the pod.
		logger.V(2).Info("Leaving the pod to the next leader", "pod", klog.KObj(f.pod.Pod), "reason", f.status.Message())
		s.queue.Done(f.pod.Pod.UID)
		return
	}
	reason := f.observe()
	message := f.status.Message()
	f.noteRejectors(ctx)

	pod := f.pod.Pod
	if newest, err := s.pods.Pods(pod.Namespace).Get(pod.Name); err == nil && newest.UID == pod.UID {
		pod = newest
	}
	// In one with the nomination: once the pod is queued its next attempt may have begun, whose
	// nomination counts.
	kept, err := s.queue.RequeueNominated(logger, f.pod, f.nominating)
	if !s.isBack(logger, pod, kept, err) {
		return
	}

	f.recorder.WithLogger(logger).Eventf(pod, nil, corev1.EventTypeWarning, "FailedScheduling", "Scheduling", "%s", truncate(message))
	s.statuses.Write(ctx, podstatus.Update{Pod: pod, Condition: unscheduledCondition(pod, reason, message), Nominating: f.nominating})
}

// observe counts the attempt and returns the reason of its condition.
func (f *failure) observe() (reason string) {
	seconds := schedmetrics.SinceInSeconds(f.start)
	if f.status.IsRejected() {
		schedmetrics.PodUnschedulable(f.profileName, seconds)
		return corev1.PodReasonUnschedulable
	}
	schedmetrics.PodScheduleError(f.profileName, seconds)
	return corev1.PodReasonSchedulerError
}

// noteRejectors writes into the queue's item which plugins refused the pod: their hints decide when
// it comes back. An error names no plugin, and the pod comes back after its backoff.
func (f *failure) noteRejectors(ctx context.Context) {
	logger := klog.FromContext(ctx)
	f.pod.ClearRejectorPlugins()
	err := f.status.AsError()
	var fitError *schedframework.FitError
	switch {
	case errors.As(err, &fitError):
		f.pod.UnschedulablePlugins = fitError.Diagnosis.UnschedulablePlugins
		f.pod.PendingPlugins = fitError.Diagnosis.PendingPlugins
		logger.V(2).Info("The pod fits nowhere; waiting", "pod", klog.KObj(f.pod.Pod), "err", err)
	case errors.Is(err, algorithm.ErrNoNodesAvailable):
		logger.V(2).Info("There are no nodes; waiting", "pod", klog.KObj(f.pod.Pod))
	default:
		utilruntime.HandleErrorWithContext(ctx, err, "Scheduling the pod failed; retrying", "pod", klog.KObj(f.pod.Pod))
	}
}

// truncate cuts a message to what the note of an Event may hold, between two characters.
func truncate(message string) string {
	const suffix = " ..."
	if len(message) <= validation.NoteLengthLimit {
		return message
	}
	end := validation.NoteLengthLimit - len(suffix)
	for !utf8.RuneStart(message[end]) {
		end--
	}
	return message[:end] + suffix
}

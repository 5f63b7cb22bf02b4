// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/livesched/livesched/internal/scheduler/podstatus"
)

// newStatusWriter returns what tells pods why they are not scheduled.
func (s *Scheduler) newStatusWriter() *podstatus.Writer {
	return podstatus.NewWriter(podstatus.Config{
		Patch: func(ctx context.Context, pod *corev1.Pod, patch []byte) error {
			return podstatus.Apply(ctx, s.client, pod, patch)
		},
		Newest: s.pendingVersion,
		Failed: s.statusNotWritten,
	})
}

// pendingVersion is the newest version of a pod that informers have, nil if it is not waiting any
// more: it is gone, bound, or being bound.
func (s *Scheduler) pendingVersion(pod *corev1.Pod) *corev1.Pod {
	newest, err := s.pods.Pods(pod.Namespace).Get(pod.Name)
	if err != nil || newest.UID != pod.UID || assigned(newest) || s.assumed(newest) {
		return nil
	}
	return newest
}

// statusNotWritten has a pod tried again that could not be told why it waits.
func (s *Scheduler) statusNotWritten(ctx context.Context, pod *corev1.Pod, err error) {
	utilruntime.HandleErrorWithContext(ctx, err, "Writing the reason into the pod's status failed", "pod", klog.KObj(pod))
	if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
		// Without an event the pod would not be tried, and its owner not be told, for minutes.
		// Another attempt after a back-off says what is true by then.
		s.queue.Move(klog.FromContext(ctx), eventStatusNotWritten, nil, pod, nil)
	}
}

// unscheduledCondition is the condition that tells why a pod is not scheduled.
func unscheduledCondition(pod *corev1.Pod, reason, message string) *corev1.PodCondition {
	return &corev1.PodCondition{
		Type:               corev1.PodScheduled,
		ObservedGeneration: podutil.CalculatePodConditionObservedGeneration(&pod.Status, pod.Generation, corev1.PodScheduled),
		Status:             corev1.ConditionFalse,
		Reason:             reason,
		Message:            message,
	}
}

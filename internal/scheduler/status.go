// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	clientset "k8s.io/client-go/kubernetes"
	fwk "k8s.io/kube-scheduler/framework"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/livesched/livesched/internal/scheduler/podstatus"
)

// patchPodStatus writes a condition and a nominated node, as far as they differ from what the pod has. Either may be
// nil. It makes no API call where nothing differs. Its errors are those of podstatus.Patch.
func patchPodStatus(ctx context.Context, client clientset.Interface, pod *corev1.Pod, condition *corev1.PodCondition, nominating *fwk.NominatingInfo) error {
	status := pod.Status.DeepCopy()
	changed := condition != nil && podutil.UpdatePodCondition(status, condition)
	if nominating.Mode() == fwk.ModeOverride && status.NominatedNodeName != nominating.NominatedNodeName {
		status.NominatedNodeName = nominating.NominatedNodeName
		changed = true
	}
	if !changed {
		return nil
	}
	return podstatus.Patch(ctx, client, pod, status)
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

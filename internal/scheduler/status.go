// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	fwk "k8s.io/kube-scheduler/framework"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
)

// patchPodStatus writes a condition and a nominated node, as far as they differ from what the pod has. Either may be
// nil. It makes no API call where nothing differs. What goes wrong with the server is tried again a few times. For a pod that
// is gone, or was replaced by another one of its name, there is an error that isGone knows: the successor must not be told of
// its predecessor.
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
	patch, err := statusPatch(pod, status)
	if err != nil {
		return err
	}
	return retry.OnError(retry.DefaultBackoff, schedutil.Retriable, func() error {
		_, err := client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
}

// statusPatch makes a patch that changes the status of this very pod: the API server compares the UID.
func statusPatch(pod *corev1.Pod, status *corev1.PodStatus) ([]byte, error) {
	before, err := json.Marshal(&corev1.Pod{Status: pod.Status})
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: pod.UID}, Status: *status})
	if err != nil {
		return nil, err
	}
	return strategicpatch.CreateTwoWayMergePatch(before, after, &corev1.Pod{})
}

// isGone says whether a pod was not there any more to be patched.
func isGone(err error) bool {
	if apierrors.IsNotFound(err) {
		return true
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(cause metav1.StatusCause) bool { return cause.Field == "metadata.uid" })
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

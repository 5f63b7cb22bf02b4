// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podstatus writes the status of pods, by their UIDs: a status must not reach the successor
// of a pod that has the same name.
package podstatus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
)

// Patch writes the fields of status that differ from the pod's. It retries errors of the server a
// few times. If the pod is gone, or was replaced by another one of its name, it returns an error
// for which IsGone is true.
func Patch(ctx context.Context, client clientset.Interface, pod *corev1.Pod, status *corev1.PodStatus) error {
	patch, err := patchOf(pod, status)
	if err != nil {
		return err
	}
	return Apply(ctx, client, pod, patch)
}

// SetNominatedNode writes the node that a pod is about to be bound to, unless the pod names it
// already.
func SetNominatedNode(ctx context.Context, client clientset.Interface, pod *corev1.Pod, nodeName string) error {
	if pod.Status.NominatedNodeName == nodeName {
		return nil
	}
	status := pod.Status.DeepCopy()
	status.NominatedNodeName = nodeName
	if err := Patch(ctx, client, pod, status); err != nil {
		return fmt.Errorf("patching the pod's status: %w", err)
	}
	return nil
}

// Apply applies a patch to the status of a pod, with the errors of Patch. The patch must name the
// pod's UID.
func Apply(ctx context.Context, client clientset.Interface, pod *corev1.Pod, patch []byte) error {
	return retry.OnError(retry.DefaultBackoff, schedutil.RetriableWithConflict, func() error {
		_, err := client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch,
			metav1.PatchOptions{}, "status")
		return err
	})
}

// patchOf returns a patch that changes the status of this pod only: the API server compares the
// UID.
func patchOf(pod *corev1.Pod, status *corev1.PodStatus) ([]byte, error) {
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

// IsGone reports whether a patch failed because the pod is gone.
func IsGone(err error) bool {
	return apierrors.IsNotFound(err) || hasCause(err, "metadata.uid")
}

// IsBound reports whether a patch failed because it nominates a pod that is bound already, by
// another client or by a binding whose response was lost. API servers refuse that from Kubernetes
// 1.35 on (feature gate ClearingNominatedNodeNameAfterBinding).
func IsBound(err error) bool {
	return apierrors.IsInvalid(err) && hasCause(err, "status.nominatedNodeName")
}

// hasCause reports whether the API server names a field as a cause of an error.
func hasCause(err error, field string) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes,
		func(cause metav1.StatusCause) bool { return cause.Field == field })
}

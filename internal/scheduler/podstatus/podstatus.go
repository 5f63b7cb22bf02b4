// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podstatus writes the status of pods, by their UIDs: what is said of a pod must not reach
// its successor of the same name.
package podstatus

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
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
)

// Patch writes what status has other than the pod. What goes wrong with the server is tried again a
// few times. For a pod that is gone, or was replaced by another one of its name, there is an error
// that IsGone knows.
func Patch(ctx context.Context, client clientset.Interface, pod *corev1.Pod, status *corev1.PodStatus) error {
	patch, err := patchOf(pod, status)
	if err != nil {
		return err
	}
	return Apply(ctx, client, pod, patch)
}

// Apply applies a patch to the status of a pod, with the errors of Patch. The patch has to name the
// pod's UID.
func Apply(ctx context.Context, client clientset.Interface, pod *corev1.Pod, patch []byte) error {
	return retry.OnError(retry.DefaultBackoff, schedutil.Retriable, func() error {
		_, err := client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
}

// patchOf makes a patch that changes the status of this very pod: the API server compares the UID.
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

// IsGone says whether a pod was not there any more to be patched.
func IsGone(err error) bool {
	if apierrors.IsNotFound(err) {
		return true
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(cause metav1.StatusCause) bool { return cause.Field == "metadata.uid" })
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podstatus writes the status of pods, by their UIDs: a status must not reach the successor
// of a pod that has the same name.
package podstatus

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	fwk "k8s.io/kube-scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
)

// Patch writes the values of an Update that the pod does not have already. It retries errors of the
// server a few times. If the pod is gone, or was replaced by another one of its name, it returns an
// error for which IsGone is true.
func Patch(ctx context.Context, client clientset.Interface, u Update) error {
	patch, err := patchFor(u.Pod, Update{}, u)
	if err != nil || patch == nil {
		return err
	}
	return apply(ctx, client, u.Pod, patch)
}

// SetNominatedNode writes the node that a pod is about to be bound to, unless the pod names it
// already.
func SetNominatedNode(ctx context.Context, client clientset.Interface, pod *corev1.Pod, nodeName string) error {
	err := Patch(ctx, client, Update{Pod: pod, Nominating: &fwk.NominatingInfo{
		NominatingMode: fwk.ModeOverride, NominatedNodeName: nodeName}})
	if err != nil {
		return fmt.Errorf("patching the pod's status: %w", err)
	}
	return nil
}

// apply applies a patch to the status of a pod, with the errors of Patch. The patch must name the
// pod's UID.
func apply(ctx context.Context, client clientset.Interface, pod *corev1.Pod, patch []byte) error {
	return retry.OnError(retry.DefaultBackoff, schedutil.RetriableWithConflict, func() error {
		_, err := client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch,
			metav1.PatchOptions{}, "status")
		return err
	})
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

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"

	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// DeleteOwnClaims deletes the claims that binding cycles of pods have created for their extended
// resources, if the cycles stopped then. A pod with such a claim fits no node. DynamicResources
// deletes that of a pod that is scheduled by itself, in PostFilter. None of the pods may be in a
// binding cycle.
func (i *Instance) DeleteOwnClaims(ctx context.Context, pods []*corev1.Pod) error {
	devices := i.handle.env.Devices
	if !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return podfields.RequestsAny(pod, devices.Backs) }) {
		return nil
	}
	claims, err := devices.DRA.ResourceClaims().List()
	if err != nil {
		return err
	}
	var errs []error
	for _, claim := range claims {
		if isExtended(claim) && slices.ContainsFunc(pods,
			func(pod *corev1.Pod) bool { return metav1.IsControlledBy(claim, pod) }) {
			errs = append(errs, deleteClaim(ctx, i.handle.env.Client, claim))
		}
	}
	return errors.Join(errs...)
}

// deleteClaim deletes a claim whatever devices it has.
func deleteClaim(ctx context.Context, client clientset.Interface, claim *resourcev1.ResourceClaim) error {
	claims := client.ResourceV1().ResourceClaims(claim.Namespace)
	if at := slices.Index(claim.Finalizers, resourcev1.Finalizer); at >= 0 {
		free := claim.DeepCopy()
		free.Finalizers = slices.Delete(free.Finalizers, at, at+1)
		if _, err := claims.Update(ctx, free, metav1.UpdateOptions{}); err != nil {
			return ignoreNotFound(err)
		}
	}
	return ignoreNotFound(claims.Delete(ctx, claim.Name, *metav1.NewPreconditionDeleteOptions(string(claim.UID))))
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

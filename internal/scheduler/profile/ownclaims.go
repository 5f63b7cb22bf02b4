// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	resourcev1client "k8s.io/client-go/kubernetes/typed/resource/v1"
	"k8s.io/client-go/util/retry"

	"github.com/livesched/livesched/internal/scheduler/devices"
	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// maxDeletions bounds the claims that are deleted at one time.
const maxDeletions = 16

// DeleteOwnClaims deletes the claims that binding cycles of pods have created for their extended
// resources, if the cycles stopped then. A pod with such a claim fits no node. DynamicResources
// deletes that of a pod that is scheduled by itself, in PostFilter. None of the pods may be in a
// binding cycle.
func (i *Instance) DeleteOwnClaims(ctx context.Context, pods []*corev1.Pod) error {
	managers := i.handle.env.Devices
	owners := sets.New[types.UID]()
	for _, pod := range pods {
		if podfields.RequestsAny(pod, managers.Backs) {
			owners.Insert(pod.UID)
		}
	}
	if owners.Len() == 0 {
		return nil
	}
	claims, err := managers.DRA.ResourceClaims().List()
	if err != nil {
		return err
	}
	var deletions errgroup.Group
	deletions.SetLimit(maxDeletions)
	for _, claim := range claims {
		owner := metav1.GetControllerOfNoCopy(claim)
		if devices.IsExtended(claim) && owner != nil && owners.Has(owner.UID) {
			client := i.handle.env.Client.ResourceV1().ResourceClaims(claim.Namespace)
			deletions.Go(func() error { return deleteClaim(ctx, client, claim) })
		}
	}
	return deletions.Wait()
}

// deleteClaim deletes a claim whatever devices it has.
func deleteClaim(ctx context.Context, client resourcev1client.ResourceClaimInterface,
	claim *resourcev1.ResourceClaim) error {
	uid := claim.UID
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if !slices.Contains(claim.Finalizers, resourcev1.Finalizer) {
			return nil
		}
		free := claim.DeepCopy()
		free.Finalizers = slices.DeleteFunc(free.Finalizers,
			func(name string) bool { return name == resourcev1.Finalizer })
		_, err := client.Update(ctx, free, metav1.UpdateOptions{})
		if !apierrors.IsConflict(err) {
			return err
		}
		now, failed := client.Get(ctx, claim.Name, metav1.GetOptions{})
		if failed != nil {
			return failed
		}
		if claim = now; now.UID != uid {
			return nil
		}
		return err
	})
	if err == nil {
		err = client.Delete(ctx, claim.Name, *metav1.NewPreconditionDeleteOptions(string(uid)))
	}
	if apierrors.IsNotFound(err) || claim.UID != uid {
		return nil
	}
	return err
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientretry "k8s.io/client-go/util/retry"
)

// madeUpDriver is the driver of the devices that the ceiling allocates.
const madeUpDriver = "test-driver.cdi.k8s.io"

// writeClaims writes what a scheduler writes to the claims of a pod.
func (b *binder) writeClaims(ctx context.Context, pod *corev1.Pod, node string) error {
	for _, name := range claimNames(pod) {
		err := clientretry.RetryOnConflict(clientretry.DefaultRetry,
			func() error { return b.writeClaim(ctx, pod, name, node) })
		if err != nil {
			return err
		}
	}
	return nil
}

// claimNames returns the names of the claims of a pod.
func claimNames(pod *corev1.Pod) []string {
	var names []string
	for _, claim := range pod.Spec.ResourceClaims {
		if claim.ResourceClaimName != nil {
			names = append(names, *claim.ResourceClaimName)
		}
	}
	for _, status := range pod.Status.ResourceClaimStatuses {
		if status.ResourceClaimName != nil {
			names = append(names, *status.ResourceClaimName)
		}
	}
	return names
}

func (b *binder) writeClaim(ctx context.Context, pod *corev1.Pod, name, node string) error {
	claims := b.client.ResourceV1().ResourceClaims(pod.Namespace)
	claim, err := claims.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if claim.Status.Allocation == nil && !slices.Contains(claim.Finalizers, resourcev1.Finalizer) {
		claim.Finalizers = append(claim.Finalizers, resourcev1.Finalizer)
		if claim, err = claims.Update(ctx, claim, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	if claim.Status.Allocation == nil {
		claim.Status.Allocation = madeUp(claim, node)
	}
	claim.Status.ReservedFor = append(claim.Status.ReservedFor,
		resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID})
	_, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	return err
}

// madeUp returns an allocation with as many devices as a claim requests.
func madeUp(claim *resourcev1.ResourceClaim, node string) *resourcev1.AllocationResult {
	allocation := &resourcev1.AllocationResult{NodeSelector: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{
			Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
		}}}},
	}}
	devices := 0
	for _, request := range claim.Spec.Devices.Requests {
		name, count := request.Name, int64(1)
		switch {
		case request.Exactly != nil:
			count = max(request.Exactly.Count, 1)
		case len(request.FirstAvailable) > 0:
			name, count = name+"/"+request.FirstAvailable[0].Name, max(request.FirstAvailable[0].Count, 1)
		}
		for range count {
			allocation.Devices.Results = append(allocation.Devices.Results, resourcev1.DeviceRequestAllocationResult{
				Request: name, Driver: madeUpDriver, Pool: node, Device: fmt.Sprintf("device-%d", devices),
			})
			devices++
		}
	}
	return allocation
}

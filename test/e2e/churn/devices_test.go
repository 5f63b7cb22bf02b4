// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package churn

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/test/objects"
)

// Some nodes have devices, which ResourceClaims request. deviceController does what the controller
// of ResourceClaims would do.
const (
	deviceClass    = "churn.example"
	deviceClaims   = 8
	devicesPerNode = 2
)

var nodesWithDevices = slices.Concat(calmNodes[:3], roughNodes[:1])

func deviceClaimName(i int) string { return fmt.Sprintf("device-%d", i) }

func newSlice(node string) *resourcev1.ResourceSlice {
	slice := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: deviceClass, NodeName: ptr.To(node),
			Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1},
		},
	}
	for i := range devicesPerNode {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: fmt.Sprintf("device-%d", i)})
	}
	return slice
}

// createSlices announces the devices of all nodes that have some.
func createSlices(ctx context.Context, a *actor) error {
	for _, node := range nodesWithDevices {
		if err := raced(a.client.Create(ctx, newSlice(node))); err != nil {
			return err
		}
	}
	return nil
}

// changeSlice withdraws or announces the devices of a node, as a driver does that ends or starts.
func changeSlice(ctx context.Context, a *actor) error {
	slice := newSlice(one(a, nodesWithDevices...))
	err := a.client.Create(ctx, slice)
	if err == nil || raced(err) != nil {
		return a.did("devices announced", err)
	}
	if a.chance(70) {
		return nil
	}
	return a.did("devices withdrawn", a.client.Delete(ctx, slice))
}

// changeDeviceClaim creates or deletes a claim.
func changeDeviceClaim(ctx context.Context, a *actor) error {
	claim := objects.DeviceClaim(deviceClaimName(a.rng.IntN(deviceClaims)), deviceClass)
	err := a.client.Create(ctx, claim)
	if err == nil || raced(err) != nil {
		return a.did("device claims created", err)
	}
	if a.chance(80) {
		return nil
	}
	return a.did("device claims deleted", a.client.Delete(ctx, claim))
}

// deviceController removes the reservations of pods that have ended, frees the devices of claims
// that no pod uses, and completes deletions. It acts all the time.
var deviceController = act{"device controller", 300 * time.Millisecond, func(ctx context.Context, a *actor) error {
	var claims resourcev1.ResourceClaimList
	if err := a.client.List(ctx, &claims); err != nil {
		return err
	}
	for i := range claims.Items {
		if err := raced(a.tidyClaim(ctx, &claims.Items[i])); err != nil {
			return err
		}
	}
	return nil
}}

func (a *actor) tidyClaim(ctx context.Context, claim *resourcev1.ResourceClaim) error {
	var users []resourcev1.ResourceClaimConsumerReference
	for _, user := range claim.Status.ReservedFor {
		var pod corev1.Pod
		err := a.client.Get(ctx, client.ObjectKey{Namespace: claim.Namespace, Name: user.Name}, &pod)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		if err == nil && pod.UID == user.UID && !isFinished(&pod) {
			users = append(users, user)
		}
	}
	unused := len(users) == 0 && claim.Status.Allocation != nil
	if len(users) < len(claim.Status.ReservedFor) || unused {
		claim.Status.ReservedFor = users
		if unused {
			claim.Status.Allocation = nil
			a.counts.add("devices freed", 1)
		}
		if err := a.client.Status().Update(ctx, claim); err != nil {
			return err
		}
	}
	if claim.Status.Allocation == nil && claim.DeletionTimestamp != nil {
		claim.Finalizers = nil
		return a.client.Update(ctx, claim)
	}
	return nil
}

// deleteDevices deletes all claims and slices.
func (w *world) deleteDevices(ctx context.Context) error {
	if err := w.client.DeleteAllOf(ctx, &resourcev1.ResourceSlice{}); err != nil {
		return err
	}
	var claims resourcev1.ResourceClaimList
	if err := w.client.List(ctx, &claims); err != nil {
		return err
	}
	a := w.actor("devices", 0)
	for i := range claims.Items {
		claim := &claims.Items[i]
		if err := raced(w.client.Delete(ctx, claim)); err != nil {
			return err
		}
		if err := raced(change(ctx, a, claim, func(c *resourcev1.ResourceClaim) { c.Finalizers = nil })); err != nil {
			return err
		}
	}
	return nil
}

// sharedDevices lists devices that are allocated to two claims.
func sharedDevices(t *truth) (found findings) {
	owner := map[string]string{}
	for i := range t.deviceClaims {
		claim := &t.deviceClaims[i]
		if claim.Status.Allocation == nil {
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			device := fmt.Sprintf("%s/%s/%s", result.Driver, result.Pool, result.Device)
			if other, taken := owner[device]; taken {
				found.add("device %s is allocated to the claims %s and %s", device, other, claim.Name)
			}
			owner[device] = claim.Name
		}
	}
	return found
}

// lacksClaim reports whether a pod names a ResourceClaim that does not exist or is being deleted.
// The plugin DynamicResources gates such a pod.
func (t *truth) lacksClaim(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.ResourceClaims, func(ref corev1.PodResourceClaim) bool {
		return !slices.ContainsFunc(t.deviceClaims, func(c resourcev1.ResourceClaim) bool {
			return c.Name == ptr.Deref(ref.ResourceClaimName, "") && c.DeletionTimestamp == nil
		})
	})
}

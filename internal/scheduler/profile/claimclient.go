// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	resourcev1client "k8s.io/client-go/kubernetes/typed/resource/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/devices"
)

// maxClaimCalls bounds the claims that are written for pods at one time, for the reason of
// binding.DefaultLimit: each pod with claims writes them in a goroutine of its own.
const maxClaimCalls = 64

// claimCalls are the writes that are under way, of all profiles. nil: there is no limit.
type claimCalls chan struct{}

func newClaimCalls() claimCalls { return make(claimCalls, maxClaimCalls) }

// claimClient is the client of DynamicResources.
//
// The plugin reserves an allocated claim for a pod by an update of the whole status. Of the pods
// that share a claim and are bound at the same time, all but one then conflict with each other,
// read the claim, and try again. claimClient adds the pod by a patch instead, which conflicts with
// nothing: reservedFor is a list with the UID as its key. The plugin also sets the time of an
// allocation that has none, because a scheduler without binding conditions has written it. The API
// server refuses that. The patch leaves the allocation alone.
//
// The plugin creates a claim for the extended resources of a pod, then adds the finalizer of
// claims that have devices, then allocates the devices. claimClient creates the claim with the
// finalizer, so that the plugin need not add it.
type claimClient struct {
	clientset.Interface
	// known are the claims as the API server has, or had, them.
	known fwk.ResourceClaimTracker
	calls claimCalls
}

// ResourceV1 implements [clientset.Interface].
func (c claimClient) ResourceV1() resourcev1client.ResourceV1Interface {
	return claimResourceV1{c.Interface.ResourceV1(), c}
}

type claimResourceV1 struct {
	resourcev1client.ResourceV1Interface
	of claimClient
}

func (c claimResourceV1) ResourceClaims(namespace string) resourcev1client.ResourceClaimInterface {
	return claimsOf{c.ResourceV1Interface.ResourceClaims(namespace), c.of}
}

type claimsOf struct {
	resourcev1client.ResourceClaimInterface
	of claimClient
}

// enter waits for a place among the calls.
func (c claimClient) enter(ctx context.Context) (leave func(), err error) {
	if c.calls == nil {
		return func() {}, nil
	}
	select {
	case c.calls <- struct{}{}:
		return func() { <-c.calls }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Create creates a claim for extended resources with the finalizer.
func (c claimsOf) Create(ctx context.Context, claim *resourcev1.ResourceClaim,
	o metav1.CreateOptions) (*resourcev1.ResourceClaim, error) {
	leave, err := c.of.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if devices.IsExtended(claim) && !slices.Contains(claim.Finalizers, resourcev1.Finalizer) {
		claim = claim.DeepCopy()
		claim.Finalizers = append(claim.Finalizers, resourcev1.Finalizer)
	}
	return c.ResourceClaimInterface.Create(ctx, claim, o)
}

// Update updates a claim. The scheduling loop itself deletes claims for extended resources, and
// must not wait for other writes. Nor do binding cycles that are undone.
func (c claimsOf) Update(ctx context.Context, claim *resourcev1.ResourceClaim,
	o metav1.UpdateOptions) (*resourcev1.ResourceClaim, error) {
	if devices.IsExtended(claim) && !slices.Contains(claim.Finalizers, resourcev1.Finalizer) {
		return c.ResourceClaimInterface.Update(ctx, claim, o) // so that it can be deleted
	}
	leave, err := c.of.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	return c.ResourceClaimInterface.Update(ctx, claim, o)
}

// UpdateStatus adds the last user of the claim by a patch, if the claim has the devices that it is
// known to have. The scheduling loop itself takes devices away from claims, and must not wait for
// other writes.
func (c claimsOf) UpdateStatus(ctx context.Context, claim *resourcev1.ResourceClaim,
	o metav1.UpdateOptions) (*resourcev1.ResourceClaim, error) {
	if claim.Status.Allocation == nil {
		return c.ResourceClaimInterface.UpdateStatus(ctx, claim, o)
	}
	leave, err := c.of.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if !c.of.onlyReserves(claim) {
		return c.ResourceClaimInterface.UpdateStatus(ctx, claim, o)
	}
	return c.reserve(ctx, claim, metav1.PatchOptions{DryRun: o.DryRun, FieldManager: o.FieldManager,
		FieldValidation: o.FieldValidation})
}

// reserve adds the last user of a claim. If the claim has other devices by now, it removes the
// user.
func (c claimsOf) reserve(ctx context.Context, claim *resourcev1.ResourceClaim,
	o metav1.PatchOptions) (*resourcev1.ResourceClaim, error) {
	user := claim.Status.ReservedFor[len(claim.Status.ReservedFor)-1]
	patched, err := c.patchUser(ctx, claim, user, o)
	if err != nil || sameDevices(patched.Status.Allocation, claim.Status.Allocation) {
		return patched, err
	}
	remove := map[string]any{"$patch": "delete", "uid": user.UID}
	if _, err := c.patchUser(context.WithoutCancel(ctx), claim, remove, o); err != nil {
		klog.FromContext(ctx).Error(err, "Removing a user from a claim failed", "claim", klog.KObj(claim), "user",
			user.Name)
	}
	return nil, fmt.Errorf("claim %s got other devices in the meantime", klog.KObj(claim))
}

// patchUser sends a patch with one element of reservedFor.
func (c claimsOf) patchUser(ctx context.Context, claim *resourcev1.ResourceClaim, user any,
	o metav1.PatchOptions) (*resourcev1.ResourceClaim, error) {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": claim.UID},
		"status":   map[string]any{"reservedFor": []any{user}},
	})
	if err != nil {
		return nil, err
	}
	return c.Patch(ctx, claim.Name, types.StrategicMergePatchType, patch, o, "status")
}

// onlyReserves reports whether an update of a claim does no more than to add a user to the claim,
// whose devices the API server has already.
func (c claimClient) onlyReserves(claim *resourcev1.ResourceClaim) bool {
	if len(claim.Status.ReservedFor) == 0 {
		return false
	}
	known, err := c.known.Get(claim.Namespace, claim.Name)
	return err == nil && known.UID == claim.UID && sameDevices(known.Status.Allocation, claim.Status.Allocation) &&
		equality.Semantic.DeepEqual(known.Status.Devices, claim.Status.Devices)
}

// sameDevices reports whether a claim is allocated as it should be, whenever that was.
func sameDevices(is, should *resourcev1.AllocationResult) bool {
	if is == nil {
		return false
	}
	then := *is
	then.AllocationTimestamp = should.AllocationTimestamp
	return equality.Semantic.DeepEqual(&then, should)
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// objects holds all objects. They are read-only, since they share memory with the cache.
type objects struct {
	profiles []v1alpha1.SchedulerProfile
	policies []v1alpha1.SchedulingPolicy
	// secrets holds the existing Secrets that the policies name.
	secrets map[types.NamespacedName]resolve.Secret
}

// gather reads everything that resolve needs. It reads the stored revisions before the Secrets,
// since a last good spec may name other Secrets.
func (r *ProfileReconciler) gather(ctx context.Context, p *pass) error {
	var err error
	// Copies of many objects cost more than the rest of a pass.
	if p.objects, err = list(ctx, r.Client, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	if err := r.recall(ctx, p); err != nil {
		return err
	}
	p.objects.secrets = r.secrets.read(ctx, resolve.SecretRefs(p.objects.policies, r.last.good))
	return nil
}

// list lists the profiles and policies.
func list(ctx context.Context, reader client.Reader, options ...client.ListOption) (objects, error) {
	var profiles v1alpha1.SchedulerProfileList
	if err := reader.List(ctx, &profiles, options...); err != nil {
		return objects{}, fmt.Errorf("listing SchedulerProfiles: %w", err)
	}
	var policies v1alpha1.SchedulingPolicyList
	if err := reader.List(ctx, &policies, options...); err != nil {
		return objects{}, fmt.Errorf("listing SchedulingPolicies: %w", err)
	}
	return objects{profiles: profiles.Items, policies: policies.Items}, nil
}

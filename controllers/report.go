// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/internal/scheduler/config"
)

// report writes the status of every object that it changes. Only the leader does: followers hold the same profiles, but
// it is the leader whose decisions status speaks of.
func (r *ProfileReconciler) report(ctx context.Context, objects *objects, resolution *config.Resolution, programmed *programmed) error {
	select {
	case <-r.Elected:
	default:
		return nil
	}
	var errs []error
	for i := range objects.profiles {
		p := objects.profiles[i].DeepCopy()
		status := profileStatus(p, resolution, programmed, r.Clock.Now())
		if !equality.Semantic.DeepEqual(p.Status, *status) {
			before := p.DeepCopy()
			p.Status = *status
			errs = append(errs, r.patchStatus(ctx, p, before))
		}
	}
	for i := range objects.policies {
		p := objects.policies[i].DeepCopy()
		status := policyStatus(p, resolution, programmed, r.Clock.Now())
		if !equality.Semantic.DeepEqual(p.Status, *status) {
			before := p.DeepCopy()
			p.Status = *status
			errs = append(errs, r.patchStatus(ctx, p, before))
		}
	}
	return errors.Join(errs...)
}

// patchStatus writes one status. An object that was deleted meanwhile needs none.
func (r *ProfileReconciler) patchStatus(ctx context.Context, obj, before client.Object) error {
	if err := r.Client.Status().Patch(ctx, obj, client.MergeFrom(before)); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the status of %T %q: %w", obj, obj.GetName(), err)
	}
	return nil
}

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

// report writes the status of every object that it changes, and records on the object, as Events,
// what is new in it. Only the leader does: followers hold the same profiles, but it is the leader
// whose decisions status speaks of.
//
// Where what decides could not be stored, the status of a profile goes on naming what was active
// before, and says so: after a restart, that is what could be brought back.
//
// Nothing new is said of a profile that is still in the first build since the start: until it has
// ended, status speaks of what ran before, most likely the same.
//
// stale says that the cache was behind the API server with some object, which is to be looked at
// again.
func (r *ProfileReconciler) report(ctx context.Context, objects *objects, resolution *config.Resolution, programmed *programmed, remembered *remembered) (stale bool, err error) {
	now := r.Clock.Now()
	var errs []error
	for i := range objects.profiles {
		before := &objects.profiles[i]
		if _, late := programmed.pendingOf(before, resolution); late != "" && before.Status.ObservedGeneration != 0 && !r.Settled() {
			continue
		}
		after := before.DeepCopy()
		after.Status = *profileStatus(before, resolution, programmed, now)
		if err := remembered.failed[before.UID]; err != nil {
			after.Status.Active = before.Status.Active
			notStored(&after.Status.Conditions, before.Generation, now, err)
		}
		if !equality.Semantic.DeepEqual(before.Status, after.Status) {
			if err := r.write(ctx, before, after, profileNotes(&before.Status, &after.Status)); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		r.trim(ctx, before.UID, before.Spec.RevisionHistoryLimit, remembered)
	}
	for i := range objects.policies {
		before := &objects.policies[i]
		if len(programmed.pendingIn(before, resolution)) > 0 && before.Status.ObservedGeneration != 0 && !r.Settled() {
			continue
		}
		after := before.DeepCopy()
		after.Status = *policyStatus(before, resolution, programmed, now)
		if err := remembered.failed[before.UID]; err != nil {
			notStored(&after.Status.Conditions, before.Generation, now, err)
		}
		if !equality.Semantic.DeepEqual(before.Status, after.Status) {
			if err := r.write(ctx, before, after, notes(before.Status.Conditions, after.Status.Conditions)); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		r.trim(ctx, before.UID, before.Spec.RevisionHistoryLimit, remembered)
	}
	return staleOr(errs)
}

// write writes one status and then records the Events. An object that was deleted meanwhile has no
// use for either.
//
// A status is computed from the one before, so it must not be written over another one than that:
// it would move transition times and repeat Events.
func (r *ProfileReconciler) write(ctx context.Context, before, after client.Object, news []note) error {
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	switch err := r.Client.Status().Patch(ctx, after, patch); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("writing the status of %T %q: %w", after, after.GetName(), err)
	}
	for _, n := range news {
		r.Recorder.Eventf(after, nil, n.eventType, n.reason, n.action, "%s", n.text)
	}
	return nil
}

// staleOr takes conflicts, which the next look at fresh objects resolves, apart from errors.
func staleOr(errs []error) (stale bool, err error) {
	var others []error
	for _, err := range errs {
		if apierrors.IsConflict(err) {
			stale = true
			continue
		}
		others = append(others, err)
	}
	return stale, errors.Join(others...)
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/livesched/livesched/api/v1alpha1"
)

// reportStatus writes the status of every object whose status changes, and records the changes as
// Events. Only the leader does so: status describes the profiles that the leader schedules with. A
// status that cannot be written holds up nothing else, and is written later.
func (r *ProfileReconciler) reportStatus(ctx context.Context, p *pass) {
	if !p.leading {
		return
	}
	now := r.Clock.Now()
	failed := false
	report := func(object client.Object, err error) {
		switch {
		case apierrors.IsConflict(err):
			p.stale = true // another pass over fresh objects resolves it
		case err != nil:
			failed = true
			log.FromContext(ctx).Error(err, "Writing a status failed; trying again", "type", fmt.Sprintf("%T", object), "name", object.GetName())
		}
	}
	for i := range p.objects.profiles {
		report(&p.objects.profiles[i], r.reportProfile(ctx, p, &p.objects.profiles[i], now))
	}
	for i := range p.objects.policies {
		report(&p.objects.policies[i], r.reportPolicy(ctx, p, &p.objects.policies[i], now))
	}
	p.statusRetry = r.statusRetries.after(failed)
}

// reportProfile writes the status of a profile.
//
// It does not touch the status of a profile that had one at the start until its first build has
// ended: most likely the same revision is going to run.
//
// If the revision that runs could not be stored, status keeps naming the last active one, with the
// reason: after a restart, that is the one that could be brought back.
func (r *ProfileReconciler) reportProfile(ctx context.Context, p *pass, before *v1alpha1.SchedulerProfile, now time.Time) error {
	s := p.state()
	if _, reason := s.pendingOf(before); reason != "" && before.Status.ObservedGeneration != 0 && !r.Settled() {
		return nil
	}
	after := before.DeepCopy()
	after.Status = *s.profileStatus(before, now)
	if err := p.stored.failed[before.UID]; err != nil {
		after.Status.Active = before.Status.Active
		notStored(&after.Status.Conditions, before.Generation, now, err)
	}
	if !equality.Semantic.DeepEqual(before.Status, after.Status) {
		if err := r.write(ctx, before, after, profileNotes(&before.Status, &after.Status)); err != nil {
			return err
		}
	}
	r.trim(ctx, before.UID, before.Spec.RevisionHistoryLimit, p)
	return nil
}

// reportPolicy is reportProfile for a policy.
func (r *ProfileReconciler) reportPolicy(ctx context.Context, p *pass, before *v1alpha1.SchedulingPolicy, now time.Time) error {
	s := p.state()
	if len(s.pendingIn(before)) > 0 && before.Status.ObservedGeneration != 0 && !r.Settled() {
		return nil
	}
	after := before.DeepCopy()
	after.Status = *s.policyStatus(before, now)
	if err := p.stored.failed[before.UID]; err != nil {
		notStored(&after.Status.Conditions, before.Generation, now, err)
	}
	if !equality.Semantic.DeepEqual(before.Status, after.Status) {
		if err := r.write(ctx, before, after, notes(before.Status.Conditions, after.Status.Conditions)); err != nil {
			return err
		}
	}
	r.trim(ctx, before.UID, before.Spec.RevisionHistoryLimit, p)
	return nil
}

// write writes one status and then records the Events. It ignores an object that has been deleted.
//
// A status is computed from the last one, so it must not replace any other: that would move
// transition times and repeat Events.
func (r *ProfileReconciler) write(ctx context.Context, before, after client.Object, news []note) error {
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	switch err := r.Client.Status().Patch(ctx, after, patch); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	for _, n := range news {
		r.Recorder.Eventf(after, nil, n.eventType, n.reason, n.action, "%s", n.text)
	}
	return nil
}

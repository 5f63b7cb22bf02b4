// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/livesched/livesched/api/v1alpha1"
)

// write is an attempt to write the report of one object: its revision, then its status and the
// Events about it, then the deletion of old revisions. One goroutine runs it.
type write struct {
	*reporter
	report  *report
	subject *subject
	// outlook is the subject's at the start.
	outlook outlook
	// timeout bounds each of these steps.
	timeout time.Duration
}

// unanswered is a write of status that may have taken effect.
type unanswered struct {
	object client.Object
	news   []note
}

// profile writes the report of a profile. An object that is gone, or has a newer generation, is
// left to a later pass.
//
// It does not touch the status of a profile that had one at the start until its first build has
// ended: most likely the same revision is going to run. The same holds for a profile
// that is built in one of the next passes.
//
// If the revision that runs could not be stored, status keeps naming the last active one, with the
// reason: after a restart, that is the one that could be brought back.
func (w *write) profile(ctx context.Context, object *v1alpha1.SchedulerProfile) error {
	running := w.report.runningOf(object)
	if running != nil && w.awaitsPolicy(w.report, running) {
		return nil
	}
	latest, notKept := w.storeProfile(ctx, object, running)
	before, err := newest(ctx, w, object, &v1alpha1.SchedulerProfile{})
	if err != nil || before == nil {
		return w.failure(notKept, err)
	}
	_, pending := w.report.pendingOf(before)
	if pending != "" && before.Status.ObservedGeneration > 0 && !w.report.settled || w.report.waits(before) {
		return w.failure(notKept, nil)
	}
	now := w.clock.Now()
	after := before.DeepCopy()
	after.Status = *w.report.profileStatus(before, now)
	if notKept != nil {
		after.Status.Active = before.Status.Active
		notStored(&after.Status.Conditions, before.Generation, now, notKept)
	}
	err = w.status(ctx, before, after, profileNotes(&before.Status, &after.Status))
	if err == nil && latest {
		w.trim(ctx, object.UID, before.Spec.RevisionHistoryLimit)
	}
	return w.failure(notKept, err)
}

// policy is profile for a policy.
func (w *write) policy(ctx context.Context, object *v1alpha1.SchedulingPolicy) error {
	latest, notKept := w.storePolicy(ctx, object)
	before, err := newest(ctx, w, object, &v1alpha1.SchedulingPolicy{})
	if err != nil || before == nil {
		return w.failure(notKept, err)
	}
	if len(w.report.pendingIn(before)) > 0 && before.Status.ObservedGeneration > 0 && !w.report.settled ||
		w.report.waitsIn(before) {
		return w.failure(notKept, nil)
	}
	now := w.clock.Now()
	after := before.DeepCopy()
	after.Status = *w.report.policyStatus(before, now)
	if notKept != nil {
		notStored(&after.Status.Conditions, before.Generation, now, notKept)
	}
	err = w.status(ctx, before, after, notes(before.Status.Conditions, after.Status.Conditions))
	if err == nil && latest {
		w.trim(ctx, object.UID, before.Spec.RevisionHistoryLimit)
	}
	return w.failure(notKept, err)
}

// confirm reads the revisions of an object anew if that is due, and relies on the cache from then
// on.
func (w *write) confirm(ctx context.Context, uid types.UID) error {
	s := w.subject
	if s.confirmAt.IsZero() || w.clock.Now().Before(s.confirmAt) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	if w.report.unreadable == nil {
		if err := w.archive.Reload(ctx, uid); err != nil {
			log.FromContext(ctx).Error(err, "Reading the stored revisions of an object failed; trying again", "uid",
				uid)
			return err
		}
	}
	s.written, s.confirmAt = nil, time.Time{}
	return nil
}

// failure returns the error to retry for, nil if there is none.
func (w *write) failure(notKept, notReported error) error {
	if notKept != nil && w.report.unreadable == nil {
		return notKept
	}
	return notReported
}

// newest returns the newest version of an object that is known: the one that was written last or,
// if that is later, the one in the cache, which it reads into cached. It returns nil if the object
// is gone, or its spec not the one that the pass has seen: a later pass reports that. What was
// written was lost if only the cache has that spec, because etcd was restored from a backup.
func newest[T interface {
	*v1alpha1.SchedulerProfile | *v1alpha1.SchedulingPolicy
	client.Object
}](ctx context.Context, w *write, seen, cached T) (T, error) {
	if err := w.client.Get(ctx, client.ObjectKeyFromObject(seen), cached); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if written, ok := w.subject.written.(T); ok {
		if isLater(written.GetResourceVersion(), cached.GetResourceVersion()) && isSame(written, seen) {
			return written, nil
		}
		w.subject.written = nil
	}
	if !isSame(cached, seen) {
		return nil, nil
	}
	return cached, nil
}

// isLater reports whether a resource version is later than another one. A version that is not known
// is not.
func isLater(version, other string) bool {
	order, err := resourceversion.CompareResourceVersion(version, other)
	return err == nil && order > 0
}

// isSame reports whether two versions of an object have the same spec.
func isSame(a, b client.Object) bool {
	return a.GetUID() == b.GetUID() && a.GetGeneration() == b.GetGeneration() &&
		equality.Semantic.DeepEqual(specOf(a), specOf(b))
}

// status writes a status that differs, and then records the Events about it. It ignores an object
// that has been deleted.
//
// A status is computed from the last one, so it must not replace any other: that would move
// transition times and repeat Events.
func (w *write) status(ctx context.Context, before, after client.Object, news []note) error {
	s := w.subject
	if last := s.unanswered; last != nil && equality.Semantic.DeepEqual(statusOf(before), statusOf(last.object)) {
		w.record(before, last.news) // it took effect
		s.unanswered = nil
	}
	if equality.Semantic.DeepEqual(statusOf(before), statusOf(after)) {
		return nil
	}
	attempted := after.DeepCopyObject().(client.Object)
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	switch err := w.client.Status().
		Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		// Either the cache is about to have a later version, or etcd was restored from a backup,
		// and what was written has a later version than the API server.
		s.written = nil
		return err
	case err != nil:
		s.unanswered = &unanswered{object: attempted, news: news}
		log.FromContext(ctx).Error(err, "Writing a status failed; trying again", "type", fmt.Sprintf("%T", before),
			"name", before.GetName())
		return err
	}
	s.written, s.unanswered = after, nil
	if s.confirmAt.IsZero() {
		s.confirmAt = w.clock.Now().Add(confirmAfter)
	}
	w.record(after, news)
	return nil
}

func (w *write) record(object client.Object, news []note) {
	for _, n := range news {
		w.recorder.Eventf(object, nil, n.eventType, n.reason, n.action, "%s", n.text)
	}
}

// statusOf returns the status of a profile or policy.
func statusOf(object client.Object) any {
	if policy, ok := object.(*v1alpha1.SchedulingPolicy); ok {
		return &policy.Status
	}
	return &object.(*v1alpha1.SchedulerProfile).Status
}

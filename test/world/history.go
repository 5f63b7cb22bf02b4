// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"errors"
	"fmt"
	"math/rand/v2"

	appsv1 "k8s.io/api/apps/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/history"
)

// revisions returns the revisions that livesched has stored.
func (w *World) revisions() ([]history.Revision, error) {
	var undecodable error
	all, err := history.ListAll(w.ctx, w.cluster.objects, ownNamespace, func(r *appsv1.ControllerRevision, err error) {
		undecodable = errors.Join(undecodable, fmt.Errorf("%s: %w", r.Name, err))
	})
	return all, errors.Join(err, undecodable)
}

// rollBack gives a profile a spec that it had, as `kubectl livesched rollback` does.
func (w *World) rollBack(r *rand.Rand, profile *v1alpha1.SchedulerProfile) {
	all, err := w.revisions()
	if err != nil {
		w.fail("the revisions: %v", err)
		return
	}
	if own := history.Of(all, profile.UID); len(own) > 0 {
		to := one(r, own)
		w.log.add("roll profile %s back to revision %d, %s", profile.Name, to.Number, to.Hash)
		w.counts["rolled back"]++
		profile.Spec = *to.Profile.DeepCopy()
		w.must(w.cluster.objects.Update(w.ctx, profile))
	}
}

// checkHistory checks that the last stored revision of each object is the one that is active, and
// resolves to it.
func (w *World) checkHistory() {
	all, err := w.revisions()
	if err != nil {
		w.fail("the revisions: %v", err)
		return
	}
	for _, object := range sorted(w.cluster.profiles) {
		profile := w.profileOf(object)
		if profile.Name != shadowName && profile.Status.Active != nil {
			if err := checkLast(profile, history.Of(all, profile.UID)); err != nil {
				w.fail("profile %s runs revision %s: %v", profile.Name, profile.Status.Active.Revision, err)
			}
		}
	}
	for _, object := range sorted(w.cluster.policies) {
		policy := w.policyOf(object)
		if !apimeta.IsStatusConditionTrue(policy.Status.Conditions, v1alpha1.ConditionProgrammed) ||
			len(policy.Status.Profiles) == 0 {
			continue
		}
		own := history.Of(all, policy.UID)
		if hash, err := history.Hash(&policy.Spec); err != nil || len(own) == 0 || own[len(own)-1].Hash != hash {
			w.fail("the last of %d revisions of policy %s is not its spec, %s: %v", len(own), policy.Name, hash, err)
		}
	}
}

// checkLast checks the last revision of a profile.
func checkLast(profile *v1alpha1.SchedulerProfile, of []history.Revision) error {
	if len(of) == 0 {
		return errors.New("no revision is stored")
	}
	last := &of[len(of)-1]
	if last.Hash != profile.Status.Active.Revision {
		return fmt.Errorf("the last of %d stored revisions is %s", len(of), last.Hash)
	}
	then := &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: profile.Name, UID: profile.UID,
		Generation: last.Generation}, Spec: *last.Profile}
	var with *v1alpha1.SchedulingPolicy
	if p := last.Policy; p != nil {
		with = &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: p.Name, UID: p.UID,
			Generation: p.Generation}, Spec: p.Spec}
	}
	if revision := revisionOf(then, with); revision != last.Hash {
		return fmt.Errorf("what is stored of it is revision %q", revision)
	}
	return nil
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/history"
	"github.com/livesched/livesched/internal/scheduler/config"
)

const (
	// patience is how long to try to read the stored revisions before profiles are looked at
	// without them: to schedule by what there is is better than not to.
	patience = 10 * time.Second
	// What could not be read or stored is tried again after firstHistoryRetry, and then after twice
	// the time of the time before, up to lastHistoryRetry.
	firstHistoryRetry = time.Second
	lastHistoryRetry  = 30 * time.Second
	// defaultHistoryLimit is the default of the schema.
	defaultHistoryLimit = 10
)

// memory is what is known of the stored revisions. Every replica reads them before it resolves
// anything, and again when it comes to lead, since the leader before may have run what this one has
// not seen. Only the leader writes.
type memory struct {
	// recalled says that they were read, and leading that this was done as the leader: what Archive
	// has in its index is what there is, apart from what somebody else does to it.
	recalled, leading bool
	// failed is why they could not be read when that was last tried, and since when that is so.
	failed error
	since  time.Time
	// delay is what has to pass until what failed is tried again.
	delay time.Duration
}

// recall reads the stored revisions where that is due, and has them go on where the present specs
// are invalid. An error is that it is too early to do without.
func (r *ProfileReconciler) recall(ctx context.Context, objects *objects, leading bool) error {
	m := &r.memory
	if m.recalled && (m.leading || !leading) {
		return nil
	}
	if err := r.Archive.Load(ctx); err != nil {
		now := r.Clock.Now()
		if m.failed == nil {
			m.since = now
		}
		m.failed = err
		if !apierrors.IsForbidden(err) && now.Sub(m.since) < patience {
			return err
		}
		log.FromContext(ctx).Error(err, "The stored revisions cannot be read; going on without them")
		return nil
	}
	m.recalled, m.leading, m.failed = true, leading, nil
	remembered := config.LastGood{Profiles: map[string][]config.GoodProfile{}, Policies: map[string][]config.GoodPolicy{}}
	for i := range objects.profiles {
		p := &objects.profiles[i]
		remembered.Profiles[p.Name] = goodProfiles(r.Archive.Revisions(p.UID), r.lastGood.Profiles[p.Name])
	}
	for i := range objects.policies {
		p := &objects.policies[i]
		remembered.Policies[p.Name] = goodPolicies(r.Archive.Revisions(p.UID), r.lastGood.Policies[p.Name])
	}
	r.lastGood = remembered
	return nil
}

// goodProfiles are the stored revisions of a profile, the latest first. What this replica has run
// goes before them if it is later: the leader before has not come to store it. Otherwise it knows
// less than they do.
func goodProfiles(stored []history.Revision, ran []config.GoodProfile) []config.GoodProfile {
	var all []config.GoodProfile
	for i := len(stored) - 1; i >= 0; i-- {
		s := &stored[i]
		if s.Profile == nil {
			continue
		}
		good := config.GoodProfile{UID: s.UID, Generation: s.Generation, Spec: *s.Profile}
		if s.Policy != nil {
			good.Policy = ptr.To(goodPolicy(s.Policy))
		}
		all = append(all, good)
	}
	switch {
	case len(ran) == 0:
		return all
	case len(all) == 0:
		return ran
	case ran[0].UID == all[0].UID && laterProfile(&ran[0], &all[0]):
		return append(ran[:1:1], all...)
	default:
		return all
	}
}

func laterProfile(a, b *config.GoodProfile) bool {
	if a.Generation != b.Generation {
		return a.Generation > b.Generation
	}
	return a.Policy != nil && b.Policy != nil && a.Policy.UID == b.Policy.UID && a.Policy.Generation > b.Policy.Generation
}

// goodPolicies is goodProfiles for a policy.
func goodPolicies(stored []history.Revision, ran []config.GoodPolicy) []config.GoodPolicy {
	var all []config.GoodPolicy
	for i := len(stored) - 1; i >= 0; i-- {
		if stored[i].Policy != nil {
			all = append(all, goodPolicy(stored[i].Policy))
		}
	}
	switch {
	case len(ran) == 0:
		return all
	case len(all) == 0:
		return ran
	case ran[0].UID == all[0].UID && ran[0].Generation > all[0].Generation:
		return append(ran[:1:1], all...)
	default:
		return all
	}
}

// goodPolicy leaves the Secrets to be read anew.
func goodPolicy(p *history.Policy) config.GoodPolicy {
	return config.GoodPolicy{Name: p.Name, UID: p.UID, Generation: p.Generation, Spec: p.Spec}
}

// remembered is what came of storing what decides, by the UIDs of objects.
type remembered struct {
	// failed says why it could not be stored.
	failed map[types.UID]error
	// latest are the objects of which the newest revision is the one that decides.
	latest sets.Set[types.UID]
}

// remember stores what decides, and what policies are accepted, as revisions: policies first, since
// the revisions of profiles name theirs. It writes nothing where nothing is new.
func (r *ProfileReconciler) remember(ctx context.Context, objects *objects, resolution *config.Resolution, programmed *programmed) *remembered {
	result := &remembered{failed: map[types.UID]error{}, latest: sets.New[types.UID]()}
	existing := sets.New[types.UID]()
	profiles := make(map[types.UID]*v1alpha1.SchedulerProfile, len(objects.profiles))
	for i := range objects.profiles {
		p := &objects.profiles[i]
		existing.Insert(p.UID)
		profiles[p.UID] = p
	}
	for i := range objects.policies {
		existing.Insert(objects.policies[i].UID)
	}
	r.Archive.Keep(existing)

	for i := range objects.policies {
		p := &objects.policies[i]
		good := r.lastGood.Policies[p.Name]
		if len(good) == 0 {
			continue // it was never accepted
		}
		want, err := policyRevision(&good[0])
		if err != nil {
			result.failed[p.UID] = err
			continue
		}
		r.store(ctx, p, want, resolution.PolicyResults[p.Name].Accepted, result)
	}
	for schedulerName, running := range programmed.running {
		p := profiles[running.config.UID]
		if p == nil {
			continue // it is gone: its instance goes on until another object's can take its place
		}
		latest := !resolution.ProfileResults[p.Name].KeptLastGood && programmed.failed[schedulerName] == nil
		r.store(ctx, p, r.profileRevision(running.config), latest, result)
	}
	return result
}

func policyRevision(good *config.GoodPolicy) (*history.Revision, error) {
	hash, err := history.Hash(&good.Spec)
	if err != nil {
		return nil, fmt.Errorf("hashing the spec of SchedulingPolicy %q: %w", good.Name, err)
	}
	return &history.Revision{
		Kind: history.KindPolicy, ObjectName: good.Name, UID: good.UID, Generation: good.Generation, Hash: hash,
		Policy: &history.Policy{Name: good.Name, UID: good.UID, Generation: good.Generation, Spec: good.Spec},
	}, nil
}

func (r *ProfileReconciler) profileRevision(cfg *config.Profile) *history.Revision {
	revision := &history.Revision{
		Kind: history.KindProfile, ObjectName: cfg.Name, UID: cfg.UID, Generation: cfg.Generation, Hash: cfg.Revision, Profile: &cfg.Source.Spec,
	}
	if good := cfg.Source.Policy; good != nil {
		revision.Policy = &history.Policy{Name: good.Name, UID: good.UID, Generation: good.Generation, Spec: good.Spec}
		for _, of := range r.Archive.Revisions(good.UID) {
			if of.Generation == good.Generation {
				revision.Policy.Revision = of.Name
			}
		}
	}
	return revision
}

// store stores one revision. Where the object has gone back to an older spec, it says so in an
// Event.
func (r *ProfileReconciler) store(ctx context.Context, object client.Object, want *history.Revision, latest bool, result *remembered) {
	if err := r.memory.failed; err != nil {
		result.failed[want.UID] = err // to write without knowing what there is would mix up the order
		return
	}
	stored, err := r.Archive.Store(ctx, want, latest)
	if err != nil {
		log.FromContext(ctx).Error(err, "Storing a revision failed; a restart might lose it", "kind", want.Kind, "name", want.ObjectName, "generation", want.Generation)
		result.failed[want.UID] = err
		return
	}
	if latest {
		result.latest.Insert(want.UID)
	}
	if before := stored.Again; before != nil {
		r.Recorder.Eventf(object, nil, corev1.EventTypeNormal, v1alpha1.ReasonRolledBack, "RollBack", "%s", rolledBack(stored, before))
	}
}

// trim deletes the revisions of an object that are beyond its limit, once status names the newest:
// never one that runs or that status names.
func (r *ProfileReconciler) trim(ctx context.Context, uid types.UID, limit *int32, remembered *remembered) {
	if remembered.latest.Has(uid) {
		r.Archive.Trim(ctx, uid, int(ptr.Deref(limit, defaultHistoryLimit)))
	}
}

// rolledBack says which revision was taken up again.
func rolledBack(stored *history.Stored, before *history.Revision) string {
	text := fmt.Sprintf("Generation %d is what revision %d was, of generation %d", stored.Generation, before.Number, before.Generation)
	if before.Kind == history.KindProfile && before.Policy != nil {
		text += fmt.Sprintf(" on generation %d of SchedulingPolicy %q", before.Policy.Generation, before.Policy.Name)
	}
	return truncate(fmt.Sprintf("%s: it is revision %d now", text, stored.Number), maxEventNote)
}

// retryHistory is how long to wait until what could not be read or stored is tried again, 0 if
// there is nothing.
func (m *memory) retryHistory(failed map[types.UID]error) time.Duration {
	if m.failed == nil && len(failed) == 0 {
		m.delay = 0
	} else {
		m.delay = min(max(2*m.delay, firstHistoryRetry), lastHistoryRetry)
	}
	return m.delay
}

// notStored says in the conditions of an object that what decides is not stored.
func notStored(conditions *[]metav1.Condition, generation int64, now time.Time, err error) {
	text := fmt.Sprintf("It could not be stored as a revision, so that a restart might lose it; this is tried again: %s", err)
	condition := metav1.Condition{Type: v1alpha1.ConditionProgrammed, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotStored, Message: text}
	if was := meta.FindStatusCondition(*conditions, v1alpha1.ConditionProgrammed); was != nil {
		condition.Message = was.Message + ". " + text
		if was.Status == metav1.ConditionFalse {
			condition.Reason = was.Reason
		}
	}
	setCondition(conditions, generation, now, condition)
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
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
	"github.com/livesched/livesched/internal/truncate"
)

// defaultHistoryLimit is the default of the schema.
const defaultHistoryLimit = 10

// stored is the result of storing the history of a pass, by the UIDs of objects.
type stored struct {
	// failed holds the errors of revisions that could not be stored.
	failed map[types.UID]error
	// latest holds the objects whose newest revision is the one that runs.
	latest sets.Set[types.UID]
}

// storeHistory stores the specs that run, and the policies that are accepted, as revisions:
// policies first, since the revisions of profiles name them. It writes only what is new. Only the
// leader writes.
func (r *ProfileReconciler) storeHistory(ctx context.Context, p *pass) {
	p.stored = stored{failed: map[types.UID]error{}, latest: sets.New[types.UID]()}
	if p.leading {
		r.Archive.Keep(p.objects.uids())
		r.storePolicies(ctx, p)
		r.storeProfiles(ctx, p)
	}
	p.historyRetry = r.memory.retries.after(r.memory.failed != nil || len(p.stored.failed) > 0)
}

// storePolicies stores the last accepted spec of each policy.
func (r *ProfileReconciler) storePolicies(ctx context.Context, p *pass) {
	for i := range p.objects.policies {
		object := &p.objects.policies[i]
		good := r.last.good.Policies[object.Name]
		if len(good) == 0 {
			continue // it was never accepted
		}
		want, err := policyRevision(&good[0])
		if err != nil {
			p.stored.failed[object.UID] = err
			continue
		}
		r.store(ctx, object, want, p.resolution.PolicyResults[object.Name].Accepted, p)
	}
}

// storeProfiles stores the spec of each profile that runs.
func (r *ProfileReconciler) storeProfiles(ctx context.Context, p *pass) {
	objects := make(map[types.UID]*v1alpha1.SchedulerProfile, len(p.objects.profiles))
	for i := range p.objects.profiles {
		objects[p.objects.profiles[i].UID] = &p.objects.profiles[i]
	}
	for schedulerName, running := range p.running {
		object := objects[running.config.UID]
		if object == nil {
			continue // it was deleted: its instance runs until that of another object is built
		}
		// A spec that runs because a newer one cannot be accepted or built is not the latest.
		latest := !p.resolution.ProfileResults[object.Name].KeptLastGood && !p.builds.wanted[schedulerName].Failed
		r.store(ctx, object, r.profileRevision(running.config), latest, p)
	}
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

// store stores one revision. It records an Event if the object has gone back to an older spec.
func (r *ProfileReconciler) store(ctx context.Context, object client.Object, want *history.Revision, latest bool, p *pass) {
	if err := r.memory.failed; err != nil {
		p.stored.failed[want.UID] = err // a write without knowledge of the stored revisions would break their order
		return
	}
	kept, err := r.Archive.Store(ctx, want, latest)
	if err != nil {
		log.FromContext(ctx).Error(err, "Storing a revision failed; a restart might lose it", "kind", want.Kind, "name", want.ObjectName, "generation", want.Generation)
		p.stored.failed[want.UID] = err
		return
	}
	if latest {
		p.stored.latest.Insert(want.UID)
	}
	if before := kept.Again; before != nil {
		r.Recorder.Eventf(object, nil, corev1.EventTypeNormal, v1alpha1.ReasonRolledBack, "RollBack", "%s", rolledBack(kept, before))
	}
}

// trim deletes the revisions of an object beyond its limit, once status names the newest: never one
// that runs or that status names.
func (r *ProfileReconciler) trim(ctx context.Context, uid types.UID, limit *int32, p *pass) {
	if p.stored.latest.Has(uid) {
		r.Archive.Trim(ctx, uid, int(ptr.Deref(limit, defaultHistoryLimit)))
	}
}

// rolledBack returns the text of the Event that an older revision is the newest again.
func rolledBack(now *history.Stored, before *history.Revision) string {
	text := fmt.Sprintf("Generation %d goes back to revision %d of generation %d", now.Generation, before.Number, before.Generation)
	if before.Kind == history.KindProfile && before.Policy != nil {
		text += fmt.Sprintf(" with generation %d of SchedulingPolicy %q", before.Policy.Generation, before.Policy.Name)
	}
	return truncate.ToBytes(fmt.Sprintf("%s, which is now revision %d", text, now.Number), maxEventNote)
}

// notStored adds to the conditions of an object that its revision could not be stored.
func notStored(conditions *[]metav1.Condition, generation int64, now time.Time, err error) {
	text := fmt.Sprintf("The revision could not be stored, and a restart might lose it; livesched tries again: %s", err)
	condition := metav1.Condition{Type: v1alpha1.ConditionProgrammed, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotStored, Message: text}
	if was := meta.FindStatusCondition(*conditions, v1alpha1.ConditionProgrammed); was != nil {
		condition.Message = was.Message + ". " + text
		if was.Status == metav1.ConditionFalse {
			condition.Reason = was.Reason
		}
	}
	setCondition(conditions, generation, now, condition)
}

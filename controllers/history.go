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
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/history"
	"github.com/livesched/livesched/internal/scheduler/resolve"
	"github.com/livesched/livesched/internal/truncate"
)

// defaultHistoryLimit is the default of the schema.
const defaultHistoryLimit = 10

// storePolicy stores the last accepted spec of a policy as a revision, if that is new. latest
// reports whether the newest revision is the present spec. The profiles of the policy may then be
// written: their revisions name the revision of the policy.
func (w *write) storePolicy(ctx context.Context, object *v1alpha1.SchedulingPolicy) (latest bool, err error) {
	good := w.report.goodPolicy(object)
	if good == nil {
		return false, nil // it was never accepted
	}
	latest = w.report.resolution.PolicyResults[object.Name].Accepted
	defer func() {
		w.triedPolicy(w.subject, object, attempt{generation: good.Generation, failed: err != nil})
	}()
	want, err := policyRevision(good)
	if err != nil {
		return false, err
	}
	if good.Generation == object.Generation {
		want.Activation = history.ActivationOf(object, w.clock.Now())
	}
	return latest, w.store(ctx, object, want, latest)
}

// storeProfile stores the spec that runs for a profile as a revision, if that is new. latest
// reports whether the newest revision is the present spec.
func (w *write) storeProfile(ctx context.Context, object *v1alpha1.SchedulerProfile,
	running *running) (latest bool, err error) {
	if running == nil || !running.config.Schedules() { // nothing brings a shadow back
		return false, nil
	}
	// A spec that runs because a newer one cannot be accepted or built is not the latest.
	latest = !w.report.resolution.ProfileResults[object.Name].KeptLastGood &&
		!w.report.replaced[running.config.ID()] && w.report.rollingOut(object) == nil
	want := w.profileRevision(running.config)
	want.Activation = w.activation(object, want)
	want.Since = running.built
	return latest, w.store(ctx, object, want, latest)
}

// activation describes the change by which a revision of a profile became active. If the profile
// itself has not changed since the last revision, that is the last change of its policy.
func (w *write) activation(object *v1alpha1.SchedulerProfile, want *history.Revision) history.Activation {
	before := w.archive.Revisions(object.UID)
	if last := len(before) - 1; last >= 0 && before[last].Generation == want.Generation {
		if want.Policy == nil {
			return history.Activation{}
		}
		return w.stored(want.Policy.UID, want.Policy.Generation).Activation
	}
	if object.Generation != want.Generation {
		return history.Activation{}
	}
	return history.ActivationOf(object, time.Time{})
}

func policyRevision(good *resolve.GoodPolicy) (*history.Revision, error) {
	hash, err := history.Hash(&good.Spec)
	if err != nil {
		return nil, fmt.Errorf("hashing the spec of SchedulingPolicy %q: %w", good.Name, err)
	}
	return &history.Revision{
		Kind: history.KindPolicy, ObjectName: good.Name, UID: good.UID, Generation: good.Generation, Hash: hash,
		Policy: &history.Policy{Name: good.Name, UID: good.UID, Generation: good.Generation, Spec: good.Spec},
	}, nil
}

func (w *write) profileRevision(cfg *resolve.Profile) *history.Revision {
	revision := &history.Revision{
		Kind: history.KindProfile, ObjectName: cfg.Name, UID: cfg.UID, Generation: cfg.Generation, Hash: cfg.Revision,
		Profile: &cfg.Source.Spec,
	}
	if good := cfg.Source.Policy; good != nil {
		revision.Policy = &history.Policy{
			Name: good.Name, UID: good.UID, Generation: good.Generation, Spec: good.Spec,
			Revision: w.stored(good.UID, good.Generation).Name,
		}
	}
	return revision
}

// stored returns the stored revision of a generation of an object, the zero value if there is none.
func (w *write) stored(uid types.UID, generation int64) history.Revision {
	for _, r := range w.archive.Revisions(uid) {
		if r.Generation == generation {
			return r
		}
	}
	return history.Revision{}
}

// store stores one revision. It records an Event if the object has gone back to an older spec.
func (w *write) store(ctx context.Context, object client.Object, want *history.Revision, latest bool) error {
	if err := w.report.unreadable; err != nil {
		return err // a write without knowledge of the stored revisions would break their order
	}
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	kept, err := w.archive.Store(ctx, want, latest)
	if err != nil {
		log.FromContext(ctx).Error(err, "Storing a revision failed; a restart might lose it", "kind", want.Kind, "name",
			want.ObjectName, "generation", want.Generation)
		return err
	}
	if before := kept.Again; before != nil {
		w.recorder.Eventf(object, nil, corev1.EventTypeNormal, v1alpha1.ReasonRolledBack, "RollBack", "%s",
			rolledBack(kept, before))
	}
	return nil
}

// trim deletes the revisions of an object beyond its limit, once status names the newest: never one
// that runs or that status names. It leaves the rest to a later write as soon as there is a newer
// report of the object.
func (w *write) trim(ctx context.Context, uid types.UID, limit *int32) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	w.mu.Lock()
	w.subject.interrupt = cancel
	outdated := w.subject.outlook != w.outlook
	w.mu.Unlock()
	if outdated {
		return // the object is queued again
	}
	w.archive.Trim(ctx, uid, int(ptr.Deref(limit, defaultHistoryLimit)))
}

// rolledBack returns the text of the Event that an older revision is the newest again.
func rolledBack(now *history.Stored, before *history.Revision) string {
	text := fmt.Sprintf("Generation %d goes back to the revision with the number %d, of generation %d", now.Generation,
		before.Number, before.Generation)
	if before.Kind == history.KindProfile && before.Policy != nil {
		text += fmt.Sprintf(" with generation %d of SchedulingPolicy %q", before.Policy.Generation, before.Policy.Name)
	}
	return truncate.ToBytes(fmt.Sprintf("%s, which now has the number %d", text, now.Number), maxEventNote)
}

// notStored adds to the conditions of an object that its revision could not be stored.
func notStored(conditions *[]metav1.Condition, generation int64, now time.Time, err error) {
	text := fmt.Sprintf("The revision could not be stored, and a restart might lose it; livesched tries again: %s", err)
	condition := metav1.Condition{Type: v1alpha1.ConditionProgrammed, Status: metav1.ConditionFalse,
		Reason: v1alpha1.ReasonNotStored, Message: text}
	if was := meta.FindStatusCondition(*conditions, v1alpha1.ConditionProgrammed); was != nil {
		condition.Message = was.Message + ". " + text
		if was.Status == metav1.ConditionFalse {
			condition.Reason = was.Reason
		}
	}
	setCondition(conditions, generation, now, condition)
	summarize(conditions, generation, now)
}

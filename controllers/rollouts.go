// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/rollout"
	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/queue"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// observeEvery is how often a roll-out looks at what was observed.
const observeEvery = 2 * time.Second

// rolloutOf is the roll-out of one object. Each pass makes the next one, which does not change when
// the pass has ended.
type rolloutOf struct {
	// candidate is what is rolled out.
	candidate *resolve.Profile
	// stable and canary are the revisions.
	stable, canary string
	plan           *rollout.Plan
	state          rollout.State
	// led means that this replica led when it made the state. Otherwise it only follows the status.
	led bool
	// before is what was observed in earlier stages, and in this one by earlier leaders; seen is
	// that and what this leader has observed in this stage.
	before, seen *rollout.Observed
	// salt decides which owners get the canary first. Each leader, and each retry, draws it
	// anew: an owner that has failed before counts again, and its revision must be a new draw.
	salt string
	// command is the annotation that was followed last, and followed are all that were, as far as
	// this replica knows.
	command  string
	followed sets.Set[string]
	// placement is the latest simulation of the two revisions, nil if there is none.
	placement *v1alpha1.RolloutPlacement
}

// rollouts are the roll-outs by the UIDs of the objects.
type rollouts map[types.UID]*rolloutOf

// rollOut takes the roll-outs of all candidates further: it adds what is to run beside the stable
// revisions to the resolution, and promotes candidates. Only the leader decides; followers do as
// the status says.
func (r *ProfileReconciler) rollOut(p *pass) {
	p.rollouts = rollouts{}
	objects := map[types.UID]*v1alpha1.SchedulerProfile{}
	for i := range p.objects.profiles {
		objects[p.objects.profiles[i].UID] = &p.objects.profiles[i]
	}
	for name, candidate := range p.resolution.Candidates {
		object := objects[candidate.UID]
		next := r.nextRollout(p, object, p.resolution.Profiles[name], candidate)
		p.rollouts[candidate.UID] = next
		switch next.state.Stage {
		case rollout.Promoted:
			p.resolution.Promote(name)
			canary := candidate.AsCanary()
			if running := r.last.active.profiles[canary.ID()]; running != nil && running.Revision == canary.Revision {
				p.resolution.Try(canary) // until what replaces the stable revision is built
			}
		case rollout.Shadow:
			p.resolution.Try(candidate.AsShadow())
		case rollout.Canary:
			p.resolution.Try(candidate.AsCanary())
		}
	}
	r.last.rollouts, r.last.decided, r.memory.wentBack = p.rollouts, r.decided(p), nil
}

// decided returns the UIDs of the profiles for which the leader has decided whether they are rolled
// out: of those whose spec is accepted, once the stored revisions were read. It is empty on other
// replicas.
func (r *ProfileReconciler) decided(p *pass) sets.Set[types.UID] {
	all := sets.Set[types.UID]{}
	for i := range p.objects.profiles {
		object := &p.objects.profiles[i]
		if p.leading && p.resolution.ProfileResults[object.Name].Accepted && !r.memory.awaited() {
			all.Insert(object.UID)
		}
	}
	return all
}

// simulateRollouts adds the latest simulations to the roll-outs, and begins those of present steps.
// It follows the swap: a simulation needs the profile that runs.
func (r *ProfileReconciler) simulateRollouts(ctx context.Context, p *pass) {
	for _, o := range p.rollouts {
		if p.running[o.candidate.SchedulerName] != nil {
			o.placement = r.placements.of(ctx, o)
		}
	}
	r.placements.keep(p.rollouts)
}

// nextRollout returns the present state of one roll-out. While a new leader does not know the
// stored revisions, nor what the last leader has written, it only aborts roll-outs.
func (r *ProfileReconciler) nextRollout(p *pass, object *v1alpha1.SchedulerProfile,
	stable, candidate *resolve.Profile) *rolloutOf {
	now := r.Clock.Now()
	next := r.last.nextRollout(object, candidate, p.leading, now)
	if r.memory.wentBack.Has(object.UID) {
		next.skipRestored(object)
	}
	next.candidate, next.stable, next.canary, next.led = candidate, stable.Revision, candidate.Revision, p.leading
	next.plan = resolve.RolloutPlan(&object.Spec)
	next.seen = next.before
	if !p.leading {
		return next
	}
	proceeds := *next
	proceeds.proceed(p, now, r.Scheduler.Observed(candidate, next.state.Stage), proceeds.follow(object))
	if r.memory.isBlind() && proceeds.state.Stage != rollout.Aborted {
		next.led = next.state.Stage == rollout.Aborted
		return next
	}
	return &proceeds
}

// nextRollout returns the roll-out of a candidate as it was left. A leader knows better than the
// status, which may be of an earlier roll-out of the same revision.
func (l *last) nextRollout(object *v1alpha1.SchedulerProfile, candidate *resolve.Profile, leading bool,
	now time.Time) *rolloutOf {
	next := recalled(object, candidate, now)
	last := l.rollouts[object.UID]
	switch {
	case last != nil && last.canary == candidate.Revision:
		next.salt = last.salt
		if leading && last.led {
			next.state, next.before, next.command = last.state, last.before, last.command
			next.followed = next.followed.Union(last.followed)
		}
	case leading && l.decided.Has(object.UID):
		next.state, next.before = rollout.Start(now), &rollout.Observed{}
	}
	return next
}

// proceed takes the roll-out to its next state. seen is what this leader has observed in the
// present stage.
func (o *rolloutOf) proceed(p *pass, now time.Time, seen *rollout.Observed, command rollout.Command) {
	stage := o.state.Stage
	o.seen = o.before.Plus(seen)
	next, again := o.state.Next(now, o.plan, o.seen, command)
	o.state = next
	switch next.Stage {
	case stage:
	case rollout.Shadow: // the user retries
		o.before, o.seen, o.salt = &rollout.Observed{}, &rollout.Observed{}, newSalt()
	default:
		o.before = o.seen
	}
	if next.Ended() {
		return
	}
	p.rolloutAgain = sooner(p.rolloutAgain, observeEvery)
	if !again.IsZero() {
		p.rolloutAgain = sooner(p.rolloutAgain, max(again.Sub(now), time.Millisecond))
	}
}

func newSalt() string { return string(uuid.NewUUID()) }

// isFollowed reports whether the status of an object describes another state of its roll-out, which
// followers act by.
func isFollowed(e event.UpdateEvent) bool {
	before, wasProfile := e.ObjectOld.(*v1alpha1.SchedulerProfile)
	after, isProfile := e.ObjectNew.(*v1alpha1.SchedulerProfile)
	if !wasProfile || !isProfile {
		return false
	}
	at := func(p *v1alpha1.SchedulerProfile) [3]string {
		status := ptr.Deref(p.Status.Rollout, v1alpha1.RolloutStatus{})
		return [3]string{status.CanaryRevision, status.Stage, fmt.Sprint(ptr.Deref(status.CurrentStepIndex, -1))}
	}
	return at(before) != at(after)
}

// command is the annotation that directs a roll-out: "command:revision", and after another colon
// whatever makes it another command.
type command struct{ text, verb, revision string }

func commandOf(object *v1alpha1.SchedulerProfile) command {
	text := object.Annotations[v1alpha1.AnnotationRollout]
	verb, about, _ := strings.Cut(text, ":")
	revision, _, _ := strings.Cut(about, ":")
	return command{text: text, verb: verb, revision: revision}
}

// follow returns the command of the object's annotation, "" if that was followed last or is about
// another revision.
func (o *rolloutOf) follow(object *v1alpha1.SchedulerProfile) rollout.Command {
	command := commandOf(object)
	if command.text == o.command || command.revision != o.canary {
		return ""
	}
	o.command, o.followed = command.text, o.followed.Union(sets.New(command.text))
	return rollout.Command(command.verb)
}

// skipRestored makes the command of an object that was restored from a backup of etcd the one that
// was followed last, if it was followed at any time.
func (o *rolloutOf) skipRestored(object *v1alpha1.SchedulerProfile) {
	if text := commandOf(object).text; text != "" && o.followed.Has(text) {
		o.command = text
	}
}

// shares returns the shares of the canaries that run, by scheduler name.
func (p *pass) shares() map[string]profile.Share {
	shares := map[string]profile.Share{}
	for _, cfg := range p.plan.next.profiles {
		if o := p.rollouts[cfg.UID]; cfg.Canary && o != nil {
			shares[cfg.SchedulerName] = profile.Share{Owners: o.state.Weight(o.plan) * queue.Whole / 100, Salt: o.salt}
		}
	}
	return shares
}

// describe returns the part of the condition Programmed about a roll-out.
func (o *rolloutOf) describe(generation int64) string {
	switch o.state.Stage {
	case rollout.Aborted:
		return fmt.Sprintf("The roll-out of revision %s of generation %d was aborted: %s", o.canary, generation,
			o.state.Reason)
	case rollout.Shadow:
		return fmt.Sprintf("Revision %s of generation %d is being compared on live pods, and decides none of them: %s",
			o.canary, generation, o.state.Reason)
	default:
		return fmt.Sprintf("Revision %s of generation %d decides the pods of %d %% of owners: %s", o.canary, generation,
			o.state.Weight(o.plan), o.state.Reason)
	}
}

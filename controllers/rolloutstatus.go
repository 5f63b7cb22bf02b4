// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"cmp"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/rollout"
	"github.com/livesched/livesched/internal/rollout/evidence"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// rolloutStatus returns the state of the roll-out of an object, nil if it is not rolled out step by
// step. The last command outlives that: the annotation may stay, and must not be followed again.
func (s *state) rolloutStatus(object *v1alpha1.SchedulerProfile) *v1alpha1.RolloutStatus {
	if !resolve.IsCanary(&object.Spec) || object.Spec.Shadow != nil {
		if command := s.lastCommand(object); command != "" {
			return &v1alpha1.RolloutStatus{Phase: v1alpha1.RolloutHealthy, Weight: 100, LastCommand: command}
		}
		return nil
	}
	o := s.rollouts[object.UID]
	if s.awaitsRevisions || o == nil && !s.resolution.ProfileResults[object.Name].Accepted {
		return object.Status.Rollout.DeepCopy() // it goes on when they are read, or the spec is accepted again
	}
	if o == nil {
		healthy := &v1alpha1.RolloutStatus{Phase: v1alpha1.RolloutHealthy, Weight: 100,
			LastCommand: s.lastCommand(object)}
		if running := s.runningOf(object); running != nil {
			healthy.StableRevision = running.config.Revision
			// A follower that has not swapped yet learns from these that the revision was promoted.
			healthy.CanaryRevision, healthy.Stage = running.config.Revision, string(rollout.Promoted)
		}
		return healthy
	}
	status := &v1alpha1.RolloutStatus{
		Phase: phaseOf(&o.state), Message: o.state.Reason, StableRevision: o.stable, CanaryRevision: o.canary,
		Stage: string(o.state.Stage), Weight: int32(o.state.Weight(o.plan)),
		Since: ptr.To(metav1.NewTime(o.state.Since).Rfc3339Copy()), Paused: o.state.Paused,
		Compared: int64(o.seen.Compared), StableOwners: int64(o.seen.Stable), CanaryOwners: int64(o.seen.New),
		LastCommand: o.command, Placement: o.placement,
	}
	if stable, canary := rounded(o.seen.StableTime), rounded(o.seen.NewTime); stable > 0 && canary > 0 {
		status.StableDecision = &metav1.Duration{Duration: stable}
		status.CanaryDecision = &metav1.Duration{Duration: canary}
	}
	if o.state.Stage == rollout.Canary {
		status.CurrentStepIndex = ptr.To(int32(o.state.Step))
	}
	for _, metric := range rollout.Metrics {
		if of := evidenceOf(metric, o.seen); of != nil {
			status.Evidence = append(status.Evidence, *of)
		}
	}
	return status
}

// lastCommand returns the command that was followed last, for an object without a roll-out under
// way. A command about the revision that runs was followed, although the leader may have ended
// before it wrote so, or has no effect any more.
func (s *state) lastCommand(object *v1alpha1.SchedulerProfile) string {
	command := commandOf(object)
	if running := s.runningOf(object); running != nil && command.revision == running.config.Revision {
		return command.text
	}
	return ptr.Deref(object.Status.Rollout, v1alpha1.RolloutStatus{}).LastCommand
}

// rounded returns a duration with two digits: the status is written when it changes.
func rounded(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 100 {
		unit *= 10
	}
	return d.Round(unit)
}

// phaseOf returns the phase of a roll-out, as Argo Rollouts names it.
func phaseOf(s *rollout.State) v1alpha1.RolloutPhase {
	switch {
	case s.Stage == rollout.Aborted:
		return v1alpha1.RolloutDegraded
	case s.Stage == rollout.Promoted:
		return v1alpha1.RolloutHealthy
	case s.Waits:
		return v1alpha1.RolloutPaused
	}
	return v1alpha1.RolloutProgressing
}

func evidenceOf(metric rollout.Metric, seen *rollout.Observed) *v1alpha1.RolloutEvidence {
	paired, owners := seen.Paired[metric], seen.Owners[metric]
	text := seen.Describe(metric)
	if text == "" {
		return nil
	}
	e := &v1alpha1.RolloutEvidence{MetricName: v1alpha1.RolloutMetric(metric), Text: text,
		Differing: int64(paired.Differing), Against: int64(paired.Against)}
	if owners == nil {
		return e
	}
	e.FailedCanary = int64(owners.New)
	for _, share := range slices.SortedFunc(maps.Keys(owners.Failed), cmp.Compare[float64]) {
		e.Failed = append(e.Failed, v1alpha1.FailedOwners{Weight: int32(share*100 + 0.5),
			Owners: int64(owners.Failed[share])})
	}
	return e
}

// recalled returns the roll-out that the status of an object describes, or one that begins if that
// is of another revision.
func recalled(object *v1alpha1.SchedulerProfile, candidate *resolve.Profile, now time.Time) *rolloutOf {
	o := &rolloutOf{state: rollout.Start(now), before: &rollout.Observed{}, salt: newSalt()}
	status := object.Status.Rollout
	if status == nil {
		return o
	}
	o.command, o.followed = status.LastCommand, sets.New(status.LastCommand)
	if status.CanaryRevision != candidate.Revision || !slices.Contains(rollout.Stages, rollout.Stage(status.Stage)) {
		return o
	}
	o.state = rollout.State{Stage: rollout.Stage(status.Stage),
		Step:  max(0, int(ptr.Deref(status.CurrentStepIndex, 0))),
		Since: ptr.Deref(status.Since, metav1.NewTime(now)).Time, Paused: status.Paused, Reason: status.Message}
	if o.state.Stage == rollout.Shadow {
		return o // the two revisions differ for the same owners again: counted twice, they would prove too much
	}
	o.before = &rollout.Observed{
		Compared: int(status.Compared), Stable: int(status.StableOwners), New: int(status.CanaryOwners),
		Paired: map[rollout.Metric]evidence.Paired{}, Owners: map[rollout.Metric]*evidence.Owners{},
	}
	for _, of := range status.Evidence {
		metric := rollout.Metric(of.MetricName)
		if of.Differing > 0 {
			o.before.Paired[metric] = evidence.Paired{Differing: int(of.Differing), Against: int(of.Against)}
		}
		owners := &evidence.Owners{New: int(of.FailedCanary), Failed: map[float64]int{}}
		for _, failed := range of.Failed {
			if failed.Weight > 0 && failed.Weight <= 100 {
				owners.Failed[float64(failed.Weight)/100] += int(failed.Owners)
			}
		}
		if len(owners.Failed) > 0 {
			o.before.Owners[metric] = owners
		}
	}
	return o
}

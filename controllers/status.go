// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/lease"
	"github.com/livesched/livesched/internal/rollout"
	"github.com/livesched/livesched/internal/scheduler/resolve"
	"github.com/livesched/livesched/internal/truncate"
)

// state holds what the status of all objects reports.
type state struct {
	// resolution holds the profiles that are to run.
	resolution *resolve.Resolution
	// running holds the profiles and shadows that run, by resolve.Profile.ID.
	running map[string]*running
	// failed and pending hold the reasons why other profiles do not run: see plan.
	failed  map[string]error
	pending map[string]string
	// reserved is the scheduler name of a profile that does not run because kube-scheduler uses the
	// name, "" if there is none.
	reserved string
	// kubeScheduler is the identity of the running kube-scheduler, or "" if none is known.
	kubeScheduler string
	// counted returns the counts of a shadow that are due to be written, by its resolve.Profile.ID,
	// nil if there are none.
	counted func(id string) *v1alpha1.ShadowStatus
	// rollouts are the roll-outs under way. If awaitsRevisions, there may be others: the stored
	// revisions are still to be read, and status.rollout stays as it is until then.
	rollouts        rollouts
	awaitsRevisions bool
}

// profileStatus returns the status of a profile. It keeps the times of everything that has not
// changed.
func (s *state) profileStatus(object *v1alpha1.SchedulerProfile, now time.Time) *v1alpha1.SchedulerProfileStatus {
	result := s.resolution.ProfileResults[object.Name]
	active := s.activeProfile(object)
	status := object.Status.DeepCopy()
	status.ObservedGeneration = object.Generation
	status.SchedulerName = result.SchedulerName
	status.Active = active
	status.Shadow, status.Rollout = s.shadowStatus(object), s.rolloutStatus(object)
	setCondition(&status.Conditions, object.Generation, now, acceptedCondition(result))
	setCondition(&status.Conditions, object.Generation, now, s.profileProgrammed(object, active))
	summarize(&status.Conditions, object.Generation, now)
	return status
}

// policyStatus returns the status of a policy.
func (s *state) policyStatus(object *v1alpha1.SchedulingPolicy, now time.Time) *v1alpha1.SchedulingPolicyStatus {
	result := s.resolution.PolicyResults[object.Name]
	status := object.Status.DeepCopy()
	status.ObservedGeneration = object.Generation
	status.Profiles = s.usersOf(object).all()
	status.ProfileCount = int32(len(status.Profiles))
	setCondition(&status.Conditions, object.Generation, now, acceptedCondition(result))
	setCondition(&status.Conditions, object.Generation, now, s.policyProgrammed(object))
	summarize(&status.Conditions, object.Generation, now)
	return status
}

// activeProfile returns the revision of the object that runs, nil if none does.
func (s *state) activeProfile(object *v1alpha1.SchedulerProfile) *v1alpha1.ActiveProfile {
	running := s.runningOf(object)
	if running == nil {
		return nil
	}
	cfg := running.config
	active := &v1alpha1.ActiveProfile{
		Generation: cfg.Generation,
		Revision:   cfg.Revision,
		Since:      metav1.NewTime(running.built).Rfc3339Copy(),
		Plugins:    resolve.ActivePlugins(running.plugins),
	}
	// Plugins can be configured at these points, but nothing calls them: groups of pods are not
	// placed together.
	active.Plugins.PlacementGenerate, active.Plugins.PlacementScore = nil, nil
	if cfg.PolicyGeneration != 0 {
		active.Policy = &v1alpha1.ActivePolicy{Name: cfg.PolicyName, Generation: cfg.PolicyGeneration}
	}
	if before := object.Status.Active; before != nil && before.Revision == active.Revision {
		active.Since = before.Since // also after a restart
	}
	return active
}

// runningOf returns the profile that runs for an object, nil if none does, or if the scheduler name
// belongs to another object.
func (s *state) runningOf(object *v1alpha1.SchedulerProfile) *running {
	running := s.running[s.resolution.ProfileResults[object.Name].ID()]
	if running == nil || running.config.UID != object.UID {
		return nil
	}
	return running
}

func acceptedCondition(result resolve.Result) metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionFalse,
		Reason: result.Reason, Message: result.Message}
	if result.Accepted {
		condition.Status = metav1.ConditionTrue
	}
	return condition
}

// profileProgrammed returns the condition Programmed of a profile.
func (s *state) profileProgrammed(object *v1alpha1.SchedulerProfile, active *v1alpha1.ActiveProfile) metav1.Condition {
	result := s.resolution.ProfileResults[object.Name]
	condition := metav1.Condition{Type: v1alpha1.ConditionProgrammed, Status: metav1.ConditionFalse}
	failed := s.failureOf(object)
	generation, reason := s.pendingOf(object)
	switch {
	case s.isReserved(object):
		condition.Reason, condition.Message = v1alpha1.ReasonSchedulerNameInUse,
			fmt.Sprintf("Generation %d does not run: %s", object.Generation, s.nameInUse())
	case reason != "":
		condition.Status = metav1.ConditionUnknown
		condition.Reason, condition.Message = v1alpha1.ReasonPending,
			fmt.Sprintf("Generation %d %s; %s", generation, reason, s.runsInstead(result.ID(), active))
	case s.rollingOut(object) != nil && active != nil:
		o := s.rollingOut(object)
		condition.Status, condition.Reason = metav1.ConditionUnknown, v1alpha1.ReasonRollingOut
		if o.state.Stage == rollout.Aborted {
			condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonRolloutAborted
		}
		condition.Message = fmt.Sprintf("%s; %s", o.describe(object.Generation),
			s.runsInstead(result.ID(), active))
		if err := s.tryFailed(object); err != nil {
			condition.Reason = v1alpha1.ReasonBuildFailed
			condition.Message = fmt.Sprintf("%s; %s", err, s.runsInstead(result.ID(), active))
		}
	case failed != nil:
		condition.Reason, condition.Message = v1alpha1.ReasonBuildFailed,
			fmt.Sprintf("%s; %s", failed, s.runsInstead(result.ID(), active))
	case result.Accepted:
		condition.Status = metav1.ConditionTrue
		condition.Reason, condition.Message = v1alpha1.ReasonProgrammed,
			fmt.Sprintf("Revision %s of generation %d is active%s%s%s",
				active.Revision, active.Generation, s.follows(object), s.running[result.ID()].missing,
				besideKubeScheduler(result.SchedulerName, s.kubeScheduler))
	case active != nil:
		condition.Reason, condition.Message = v1alpha1.ReasonKeptLastGood,
			fmt.Sprintf("Generation %d is not accepted; %s", object.Generation,
				s.runsInstead(result.ID(), active))
	default:
		condition.Reason, condition.Message = v1alpha1.ReasonInvalid,
			fmt.Sprintf("Generation %d is not accepted, and no last good generation can run", object.Generation)
	}
	return condition
}

// rollingOut returns the roll-out of an object that has not been promoted, nil if there is none.
func (s *state) rollingOut(object *v1alpha1.SchedulerProfile) *rolloutOf {
	if o := s.rollouts[object.UID]; o != nil && o.state.Stage != rollout.Promoted {
		return o
	}
	return nil
}

// tryFailed returns why what is rolled out could not be built, nil if it was.
func (s *state) tryFailed(object *v1alpha1.SchedulerProfile) error {
	for id, err := range s.failed {
		if cfg := s.resolution.ByID(id); cfg != nil && cfg.UID == object.UID && !cfg.Schedules() {
			return err
		}
	}
	return nil
}

// missingKinds returns the part of the condition of a profile about kinds that its plugins use and
// the API server does not serve. It is "" if there are none.
func missingKinds(kinds []schema.GroupVersionKind) string {
	if len(kinds) == 0 {
		return ""
	}
	names := make([]string, 0, len(kinds))
	for _, kind := range kinds {
		names = append(names, kind.GroupVersion().String()+" "+kind.Kind)
	}
	return "; its plugins find no objects of kinds that the API server does not serve: " + strings.Join(names, ", ")
}

// failureOf returns why the object's profile could not be built, nil if it was built or not tried.
func (s *state) failureOf(object *v1alpha1.SchedulerProfile) error {
	if cfg := s.resolved(object); cfg != nil {
		return s.failed[cfg.ID()]
	}
	return nil
}

// pendingOf returns the generation of the object that runs as soon as it is built, and the reason
// why it does not run yet, "" if there is none.
func (s *state) pendingOf(object *v1alpha1.SchedulerProfile) (generation int64, reason string) {
	if cfg := s.resolved(object); cfg != nil {
		return cfg.Generation, s.pending[cfg.ID()]
	}
	return 0, ""
}

// resolved returns the profile of an object that is to run, nil if there is none, or if its
// scheduler name belongs to another object.
func (s *state) resolved(object *v1alpha1.SchedulerProfile) *resolve.Profile {
	cfg := s.resolution.ByID(s.resolution.ProfileResults[object.Name].ID())
	if cfg == nil || cfg.UID != object.UID {
		return nil
	}
	return cfg
}

// isReserved reports whether kube-scheduler's use of its scheduler name keeps the object's profile
// from running.
func (s *state) isReserved(object *v1alpha1.SchedulerProfile) bool {
	cfg := s.resolution.Profiles[s.reserved]
	return cfg != nil && cfg.UID == object.UID
}

// reservedIn returns the profiles of a policy that do not run for this reason.
func (s *state) reservedIn(object *v1alpha1.SchedulingPolicy) []string {
	return s.profilesIn(object,
		func(id string) bool { return s.reserved != "" && id == s.reserved })
}

// nameInUse describes why a profile with the scheduler name of kube-scheduler does not run, and
// what the user can do.
func (s *state) nameInUse() string {
	return fmt.Sprintf("kube-scheduler runs (%s holds the Lease %s) and schedules the pods with this scheduler name; "+
		"the profile runs when kube-scheduler has stopped, or with --yield-to-kube-scheduler=false if no profile of "+
		"kube-scheduler has this name",
		s.kubeScheduler, lease.KubeScheduler)
}

// pendingIn returns the profiles of a policy that are still being built.
func (s *state) pendingIn(object *v1alpha1.SchedulingPolicy) []string {
	return s.profilesIn(object, func(id string) bool { return s.pending[id] != "" })
}

// failedIn returns the profiles of a policy that could not be built.
func (s *state) failedIn(object *v1alpha1.SchedulingPolicy) []string {
	return s.profilesIn(object, func(id string) bool { return s.failed[id] != nil })
}

// profilesIn returns the accepted profiles of a policy whose resolve.Profile.ID is selected.
func (s *state) profilesIn(object *v1alpha1.SchedulingPolicy, selects func(id string) bool) (names []string) {
	for _, name := range s.resolution.PolicyResults[object.Name].Profiles {
		if selects(s.resolution.ProfileResults[name].ID()) {
			names = append(names, name)
		}
	}
	return names
}

// runsInstead describes what runs where the current generation of an object does not.
func (s *state) runsInstead(id string, active *v1alpha1.ActiveProfile) string {
	switch {
	case active != nil:
		return fmt.Sprintf("revision %s of generation %d stays active", active.Revision, active.Generation)
	case s.running[id] != nil:
		// The object that had the scheduler name was deleted. Its instance runs until this profile
		// is built.
		return fmt.Sprintf("revision %s of a deleted SchedulerProfile stays active", s.running[id].config.Revision)
	case s.resolution.Shadows[id] != nil:
		return "it decides no pods"
	default:
		return "pods with this scheduler name stay pending"
	}
}

// users are the profiles that build on a policy, by name and in order.
type users struct {
	// current are those whose accepted spec does, and those whose active revision builds on the
	// present generation, although their present spec does not: it is rejected, or not built.
	current []string
	// older are other profiles, whose active revision builds on an older generation, or on
	// a deleted policy of this name.
	older []string
}

func (u users) all() []string {
	all := slices.Concat(u.current, u.older)
	slices.Sort(all)
	return all
}

// usersOf returns the profiles that build on a policy.
func (s *state) usersOf(object *v1alpha1.SchedulingPolicy) users {
	u := users{current: slices.Clone(s.resolution.PolicyResults[object.Name].Profiles)}
	for id, running := range s.running {
		cfg := running.config
		result, exists := s.resolution.ProfileResults[cfg.Name]
		switch {
		case cfg.PolicyName != object.Name || cfg.PolicyGeneration == 0: // another policy, or the built-in defaults
		case !exists || result.ID() != id: // the object that the instance was built from is gone
		case slices.Contains(u.current, cfg.Name):
		case buildsOn(cfg, object):
			u.current = append(u.current, cfg.Name)
		default:
			u.older = append(u.older, cfg.Name)
		}
	}
	slices.Sort(u.current)
	slices.Sort(u.older)
	return u
}

// buildsOn reports whether a profile builds on the present generation of a policy, and not on one
// of a policy of this name that was deleted.
func buildsOn(cfg *resolve.Profile, object *v1alpha1.SchedulingPolicy) bool {
	policy := cfg.Source.Policy
	return policy != nil && policy.UID == object.UID && policy.Generation == object.Generation
}

// triedIn returns the profiles whose accepted spec builds on a policy, and that run without its
// present generation because that is being rolled out with the spec, or was taken back.
func (s *state) triedIn(object *v1alpha1.SchedulingPolicy) (tried, aborted []string) {
	for _, name := range s.resolution.PolicyResults[object.Name].Profiles {
		running := s.running[s.resolution.ProfileResults[name].ID()]
		if running == nil {
			continue
		}
		cfg := running.config
		o := s.rollouts[cfg.UID] // none if the object is another one of the name
		if cfg.Name != name || buildsOn(cfg, object) || o == nil {
			continue
		}
		switch o.state.Stage {
		case rollout.Promoted:
		case rollout.Aborted:
			aborted = append(aborted, cfg.Name)
		default:
			tried = append(tried, cfg.Name)
		}
	}
	slices.Sort(tried)
	slices.Sort(aborted)
	return tried, aborted
}

// policyProgrammed returns the condition Programmed of a policy.
func (s *state) policyProgrammed(object *v1alpha1.SchedulingPolicy) metav1.Condition {
	result := s.resolution.PolicyResults[object.Name]
	condition := metav1.Condition{Type: v1alpha1.ConditionProgrammed, Status: metav1.ConditionFalse}
	failed, pending, reserved := s.failedIn(object), s.pendingIn(object), s.reservedIn(object)
	users := s.usersOf(object)
	tried, aborted := s.triedIn(object)
	switch {
	case result.KeptLastGood:
		condition.Reason, condition.Message = v1alpha1.ReasonKeptLastGood,
			fmt.Sprintf("Generation %d is not accepted; the last good generation stays active", object.Generation)
	case !result.Accepted:
		condition.Reason, condition.Message = v1alpha1.ReasonInvalid,
			fmt.Sprintf("Generation %d is not accepted, and no last good generation can run", object.Generation)
	case len(failed) > 0:
		condition.Reason, condition.Message = v1alpha1.ReasonBuildFailed,
			fmt.Sprintf("Generation %d could not be built into %s; see the profile status for the error",
				object.Generation, listed(failed))
	case len(pending) > 0:
		condition.Status = metav1.ConditionUnknown
		condition.Reason, condition.Message = v1alpha1.ReasonPending,
			fmt.Sprintf("Generation %d is still being built into %s", object.Generation, listed(pending))
	case len(reserved) > 0:
		condition.Reason, condition.Message = v1alpha1.ReasonSchedulerNameInUse,
			fmt.Sprintf("Generation %d is not active in %s: %s", object.Generation, listed(reserved), s.nameInUse())
	case len(aborted) > 0:
		condition.Reason, condition.Message = v1alpha1.ReasonRolloutAborted,
			fmt.Sprintf("The roll-out of generation %d was aborted in %s; see the profile status for the reason",
				object.Generation, listed(aborted))
	case len(tried) > 0:
		condition.Status = metav1.ConditionUnknown
		condition.Reason, condition.Message = v1alpha1.ReasonRollingOut,
			fmt.Sprintf("Generation %d is being rolled out in %s", object.Generation, listed(tried))
	default:
		condition.Status = metav1.ConditionTrue
		condition.Reason, condition.Message = v1alpha1.ReasonProgrammed, users.activeIn(object.Generation)
	}
	return condition
}

// activeIn describes where a generation is active.
func (u users) activeIn(generation int64) string {
	switch {
	case len(u.all()) == 0:
		return "No accepted profile uses this policy"
	case len(u.current) == 0:
		return fmt.Sprintf("No accepted profile uses this policy; an older generation stays active in %s",
			listed(u.older))
	case len(u.older) == 0:
		return fmt.Sprintf("Generation %d is active in %s", generation, listed(u.current))
	}
	return fmt.Sprintf("Generation %d is active in %s; an older one stays active in %s", generation, listed(u.current),
		listed(u.older))
}

// listed names one profile or more.
func listed(profiles []string) string {
	if len(profiles) == 1 {
		return "profile " + profiles[0]
	}
	return "profiles " + strings.Join(profiles, ", ")
}

// setCondition sets a condition for a generation. Its transition time changes only with its status.
func setCondition(conditions *[]metav1.Condition, generation int64, now time.Time, condition metav1.Condition) {
	condition.ObservedGeneration = generation
	condition.LastTransitionTime = metav1.NewTime(now).Rfc3339Copy()
	condition.Message = truncate.ToBytes(condition.Message, maxConditionMessage)
	meta.SetStatusCondition(conditions, condition)
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/config"
	"github.com/livesched/livesched/internal/scheduler/profile"
)

// profileStatus says what became of a profile. It keeps the times of what has not changed.
func profileStatus(object *v1alpha1.SchedulerProfile, resolution *config.Resolution, programmed *programmed, now time.Time) *v1alpha1.SchedulerProfileStatus {
	result := resolution.ProfileResults[object.Name]
	active := activeProfile(object, resolution, programmed)
	status := object.Status.DeepCopy()
	status.ObservedGeneration = object.Generation
	status.SchedulerName = result.SchedulerName
	status.Active = active
	setCondition(&status.Conditions, object.Generation, now, acceptedCondition(result))
	setCondition(&status.Conditions, object.Generation, now, profileProgrammed(object, result, active, programmed.failed[result.SchedulerName]))
	return status
}

// policyStatus says what became of a policy.
func policyStatus(object *v1alpha1.SchedulingPolicy, resolution *config.Resolution, programmed *programmed, now time.Time) *v1alpha1.SchedulingPolicyStatus {
	result := resolution.PolicyResults[object.Name]
	status := object.Status.DeepCopy()
	status.ObservedGeneration = object.Generation
	status.Profiles = result.Profiles
	setCondition(&status.Conditions, object.Generation, now, acceptedCondition(result))
	setCondition(&status.Conditions, object.Generation, now, policyProgrammed(result, resolution, programmed))
	return status
}

// activeProfile is the revision of the object that decides, nil if none does.
func activeProfile(object *v1alpha1.SchedulerProfile, resolution *config.Resolution, programmed *programmed) *v1alpha1.ActiveProfile {
	name := resolution.ProfileResults[object.Name].SchedulerName
	running := programmed.running[name]
	if running == nil {
		return nil
	}
	// An instance that was carried over was built from an older generation of the same revision.
	cfg := running.Config
	if resolved := resolution.Profiles[name]; resolved != nil && resolved.Revision == cfg.Revision {
		cfg = resolved
	}
	if cfg.Name != object.Name || cfg.UID != object.UID {
		return nil // another object has the scheduler name
	}
	active := &v1alpha1.ActiveProfile{
		Generation: cfg.Generation,
		Revision:   cfg.Revision,
		Since:      metav1.NewTime(running.Built).Rfc3339Copy(),
		Plugins:    activePlugins(running),
	}
	if cfg.PolicyGeneration != 0 {
		active.Policy = &v1alpha1.ActivePolicy{Name: cfg.PolicyName, Generation: cfg.PolicyGeneration}
	}
	if before := object.Status.Active; before != nil && before.Revision == active.Revision {
		active.Since = before.Since // also when livesched was restarted in between
	}
	return active
}

func acceptedCondition(result config.Result) metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionFalse, Reason: result.Reason, Message: result.Message}
	if result.Accepted {
		condition.Status = metav1.ConditionTrue
	}
	return condition
}

func profileProgrammed(object *v1alpha1.SchedulerProfile, result config.Result, active *v1alpha1.ActiveProfile, failed error) metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.ConditionProgrammed, Status: metav1.ConditionFalse}
	goesOn := "no revision of this profile runs"
	if active != nil {
		goesOn = fmt.Sprintf("revision %s of generation %d goes on", active.Revision, active.Generation)
	}
	switch {
	case failed != nil:
		condition.Reason, condition.Message = v1alpha1.ReasonBuildFailed, fmt.Sprintf("%s: %v", goesOn, failed)
	case !result.Accepted && active == nil:
		condition.Reason, condition.Message = v1alpha1.ReasonInvalid, fmt.Sprintf("Generation %d is not accepted, and there is no last good one: %s", object.Generation, goesOn)
	case !result.Accepted:
		condition.Reason, condition.Message = v1alpha1.ReasonKeptLastGood, fmt.Sprintf("Generation %d is not accepted: %s", object.Generation, goesOn)
	default:
		condition.Status = metav1.ConditionTrue
		condition.Reason, condition.Message = v1alpha1.ReasonProgrammed, fmt.Sprintf("Generation %d decides, as revision %s", object.Generation, active.Revision)
	}
	return condition
}

func policyProgrammed(result config.Result, resolution *config.Resolution, programmed *programmed) metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.ConditionProgrammed, Status: metav1.ConditionFalse}
	var failed []string
	for _, name := range result.Profiles {
		if programmed.failed[resolution.ProfileResults[name].SchedulerName] != nil {
			failed = append(failed, name)
		}
	}
	switch {
	case result.KeptLastGood:
		condition.Reason, condition.Message = v1alpha1.ReasonKeptLastGood, "The spec is not accepted: the last good one goes on in the profiles that build on it"
	case !result.Accepted:
		condition.Reason, condition.Message = v1alpha1.ReasonInvalid, "The spec is not accepted, and there is no last good one"
	case len(failed) > 0:
		condition.Reason, condition.Message = v1alpha1.ReasonBuildFailed, fmt.Sprintf("Profiles that could not be built: %s; see their status", strings.Join(failed, ", "))
	default:
		condition.Status = metav1.ConditionTrue
		condition.Reason, condition.Message = v1alpha1.ReasonProgrammed, fmt.Sprintf("This generation decides in %d profiles", len(result.Profiles))
	}
	return condition
}

// setCondition sets a condition for a generation. Its transition time moves only when its status does.
func setCondition(conditions *[]metav1.Condition, generation int64, now time.Time, condition metav1.Condition) {
	condition.ObservedGeneration = generation
	condition.LastTransitionTime = metav1.NewTime(now).Rfc3339Copy()
	meta.SetStatusCondition(conditions, condition)
}

// activePlugins lists what really runs.
func activePlugins(p *profile.Profile) v1alpha1.ActivePlugins {
	configured := p.Plugins()
	active := v1alpha1.ActivePlugins{
		PreEnqueue: names(configured.PreEnqueue),
		QueueSort:  names(configured.QueueSort),
		PreFilter:  names(configured.PreFilter),
		Filter:     names(configured.Filter),
		PostFilter: names(configured.PostFilter),
		PreScore:   names(configured.PreScore),
		Reserve:    names(configured.Reserve),
		Permit:     names(configured.Permit),
		PreBind:    names(configured.PreBind),
		Bind:       names(configured.Bind),
		PostBind:   names(configured.PostBind),
	}
	for _, plugin := range configured.Score.Enabled {
		active.Score = append(active.Score, v1alpha1.WeightedPlugin{Name: plugin.Name, Weight: int64(plugin.Weight)})
	}
	return active
}

func names(set schedconfig.PluginSet) []string {
	var all []string
	for _, plugin := range set.Enabled {
		all = append(all, plugin.Name)
	}
	return all
}

// remember notes the specs that run as the last good ones.
func (r *ProfileReconciler) remember(resolution *config.Resolution, programmed *programmed) {
	var running []*config.Profile
	for _, name := range slices.Sorted(maps.Keys(resolution.Profiles)) {
		if programmed.failed[name] == nil {
			running = append(running, resolution.Profiles[name])
		}
	}
	r.lastGood = resolution.LastGood(running)
}

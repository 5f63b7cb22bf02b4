// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package print

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// Status is the output of the command status.
type Status struct {
	Profiles []ProfileStatus `json:"profiles"`
	Policies []PolicyStatus  `json:"policies"`
	// PodsUnknown is why the numbers of pods are unknown, "" if they are known.
	PodsUnknown string `json:"podsUnknown,omitempty"`
}

// ProfileStatus is the status of a profile.
type ProfileStatus struct {
	Name string `json:"name"`
	// SchedulerName is "" for a shadow, which follows the profile named Follows.
	SchedulerName string `json:"schedulerName,omitempty"`
	Follows       string `json:"follows,omitempty"`
	Ready         string `json:"ready"`
	Accepted      string `json:"accepted"`
	Programmed    string `json:"programmed"`
	// Generation is the generation of the applied spec, and ActiveGeneration the generation of the
	// active one, 0 if there is none.
	Generation       int64       `json:"generation"`
	ActiveGeneration int64       `json:"activeGeneration,omitempty"`
	Revision         string      `json:"revision,omitempty"`
	Since            metav1.Time `json:"since,omitzero"`
	// Policy is the policy that the profile builds on, PolicyGeneration its active generation, 0
	// for the built-in defaults.
	Policy           string `json:"policy"`
	PolicyGeneration int64  `json:"policyGeneration,omitempty"`
	// Pods are nil if they are unknown, or if livesched does not queue the pods of the profile.
	Pods     *PodCounts `json:"pods,omitempty"`
	Problems []string   `json:"problems,omitempty"`
	// Shadow has the counts of a shadow, nil if there are none.
	Shadow *v1alpha1.ShadowStatus `json:"shadow,omitempty"`
	// Rollout is nil for a profile that is not rolled out step by step.
	Rollout *Rollout `json:"rollout,omitempty"`
}

// PolicyStatus is the status of a policy.
type PolicyStatus struct {
	Name       string   `json:"name"`
	Ready      string   `json:"ready"`
	Accepted   string   `json:"accepted"`
	Programmed string   `json:"programmed"`
	Generation int64    `json:"generation"`
	Profiles   []string `json:"profiles,omitempty"`
	Problems   []string `json:"problems,omitempty"`
}

// PodCounts are the pending pods of a profile by queue.
type PodCounts struct {
	Active        int32 `json:"active"`
	Backoff       int32 `json:"backoff"`
	Unschedulable int32 `json:"unschedulable"`
	Gated         int32 `json:"gated"`
}

// Pending returns the number of pods that wait, in any queue.
func (c *PodCounts) Pending() int32 { return c.Active + c.Backoff + c.Unschedulable + c.Gated }

// NewStatus returns the status of profiles and policies, without the numbers of pods.
func NewStatus(profiles []v1alpha1.SchedulerProfile, policies []v1alpha1.SchedulingPolicy) *Status {
	s := &Status{Profiles: []ProfileStatus{}, Policies: []PolicyStatus{}}
	for i := range profiles {
		s.Profiles = append(s.Profiles, NewProfileStatus(&profiles[i]))
	}
	for i := range policies {
		s.Policies = append(s.Policies, newPolicyStatus(&policies[i]))
	}
	return s
}

// SetPods sets the numbers of pods by profile, or why they are unknown.
func (s *Status) SetPods(byProfile map[string]*PodCounts, unknown string) {
	s.PodsUnknown = unknown
	for i := range s.Profiles {
		s.Profiles[i].Pods = byProfile[s.Profiles[i].Name]
	}
}

// NewProfileStatus returns the status of a profile, without the numbers of pods.
func NewProfileStatus(p *v1alpha1.SchedulerProfile) ProfileStatus {
	s := ProfileStatus{
		Name: p.Name, SchedulerName: cmp.Or(p.Status.SchedulerName, resolve.SchedulerName(p)), Generation: p.Generation,
		Policy:     cmp.Or(p.Spec.PolicyRef.Name, resolve.DefaultPolicyName),
		Ready:      readyOf(p.Status.Conditions, p.Generation),
		Accepted:   stateOf(p.Status.Conditions, v1alpha1.ConditionAccepted),
		Programmed: stateOf(p.Status.Conditions, v1alpha1.ConditionProgrammed),
		Problems:   profileProblems(p),
		Shadow:     p.Status.Shadow,
		Rollout:    newRollout(p),
	}
	if p.Spec.Mode == v1alpha1.ProfileShadow && p.Spec.Shadow != nil {
		s.SchedulerName, s.Follows = "", p.Spec.Shadow.ProfileRef.Name
	}
	if active := p.Status.Active; active != nil {
		s.ActiveGeneration, s.Revision, s.Since = active.Generation, active.Revision, active.Since
		if active.Policy != nil {
			s.Policy, s.PolicyGeneration = active.Policy.Name, active.Policy.Generation
		}
	}
	return s
}

func newPolicyStatus(p *v1alpha1.SchedulingPolicy) PolicyStatus {
	return PolicyStatus{
		Name: p.Name, Generation: p.Generation, Profiles: p.Status.Profiles,
		Ready:      readyOf(p.Status.Conditions, p.Generation),
		Accepted:   stateOf(p.Status.Conditions, v1alpha1.ConditionAccepted),
		Programmed: stateOf(p.Status.Conditions, v1alpha1.ConditionProgrammed),
		Problems:   problemsOf(p.Status.Conditions, p.Generation),
	}
}

// readyOf returns whether the current generation is active. An older livesched reports that by
// Programmed alone.
func readyOf(conditions []metav1.Condition, generation int64) string {
	condition := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	if condition == nil {
		condition = meta.FindStatusCondition(conditions, v1alpha1.ConditionProgrammed)
	}
	if condition == nil || condition.ObservedGeneration < generation {
		return string(metav1.ConditionUnknown)
	}
	return string(condition.Status)
}

func stateOf(conditions []metav1.Condition, of string) string {
	if condition := meta.FindStatusCondition(conditions, of); condition != nil {
		return string(condition.Status)
	}
	return string(metav1.ConditionUnknown)
}

// profileProblems returns the problems of a profile. A roll-out that is under way has words of its
// own.
func profileProblems(p *v1alpha1.SchedulerProfile) []string {
	return problemsOf(p.Status.Conditions, p.Generation, v1alpha1.ReasonRollingOut)
}

// problemsOf returns the conditions that are not true, or that livesched has not processed the
// generation. It leaves out those with the reasons that are no problem.
func problemsOf(conditions []metav1.Condition, generation int64, noProblem ...string) []string {
	var problems []string
	for _, of := range []string{v1alpha1.ConditionAccepted, v1alpha1.ConditionProgrammed} {
		condition := meta.FindStatusCondition(conditions, of)
		switch {
		case condition == nil:
			return []string{"livesched has not processed it: is livesched running?"}
		case condition.ObservedGeneration < generation:
			return []string{fmt.Sprintf("livesched has not processed generation %d yet", generation)}
		case condition.Status != metav1.ConditionTrue && !slices.Contains(noProblem, condition.Reason):
			problems = append(problems,
				fmt.Sprintf("%s is %s (%s): %s", of, condition.Status, condition.Reason, condition.Message))
		}
	}
	return problems
}

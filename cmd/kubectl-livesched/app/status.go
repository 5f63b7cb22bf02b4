// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/suggest"
)

type statusOptions struct {
	*options
	livesched remoteOptions
	output    string
	watch     bool
}

// statusReport is the output of the command.
type statusReport struct {
	Profiles []profileStatus `json:"profiles"`
	Policies []policyStatus  `json:"policies"`
	// PodsUnknown is why the numbers of pods are unknown, "" if they are known.
	PodsUnknown string `json:"podsUnknown,omitempty"`
}

type profileStatus struct {
	Name          string `json:"name"`
	SchedulerName string `json:"schedulerName"`
	Ready         string `json:"ready"`
	Accepted      string `json:"accepted"`
	Programmed    string `json:"programmed"`
	// Generation is that of the applied spec, ActiveGeneration that of the active one, 0 if there
	// is none.
	Generation       int64       `json:"generation"`
	ActiveGeneration int64       `json:"activeGeneration,omitempty"`
	Revision         string      `json:"revision,omitempty"`
	Since            metav1.Time `json:"since,omitzero"`
	// Policy is the policy that the profile builds on, PolicyGeneration its active generation, 0
	// for the built-in defaults.
	Policy           string `json:"policy"`
	PolicyGeneration int64  `json:"policyGeneration,omitempty"`
	// Pods are nil if they are unknown, or if livesched does not queue the pods of the profile.
	Pods     *podCounts `json:"pods,omitempty"`
	Problems []string   `json:"problems,omitempty"`
}

type policyStatus struct {
	Name       string   `json:"name"`
	Ready      string   `json:"ready"`
	Accepted   string   `json:"accepted"`
	Programmed string   `json:"programmed"`
	Generation int64    `json:"generation"`
	Profiles   []string `json:"profiles,omitempty"`
	Problems   []string `json:"problems,omitempty"`
}

func newStatus(shared *options) *cobra.Command {
	o := &statusOptions{options: shared}
	command := &cobra.Command{
		Use:   "status [NAME | profile/NAME]...",
		Short: "Show profiles and policies, their active revisions, and the pending pods",
		Long: "Show profiles with their active revisions and pending pods, the policies that they build on, and their problems. Without names, show all " +
			"profiles and policies. The tables are at most 80 columns wide, or as wide as the terminal: -o wide shows whole names and more columns.\n\n" +
			"The command asks a running livesched for the numbers of pods. That requires the permissions of the Role livesched-client in livesched's " +
			"namespace, and the permission to list queues.livesched.io, which the ClusterRole livesched-viewer has. If there is no answer, these columns " +
			"have a -, and the last line has the reason.",
		Example: "  kubectl livesched status\n\n  kubectl livesched status binpack -o yaml\n\n  # Follow a change\n  kubectl livesched status -w",
		RunE:    func(command *cobra.Command, args []string) error { return o.run(command.Context(), args) },
	}
	o.addFormerNamespaceFlag(command)
	o.livesched.addFlags(command)
	addOutputFlag(command, &o.output, formatWide, formatJSON, formatYAML)
	command.Flags().BoolVarP(&o.watch, "watch", "w", false, "Show the status again whenever it changes, until interrupted. The numbers of pods are read every 2 seconds.")
	return command
}

func (o *statusOptions) run(ctx context.Context, args []string) error {
	if err := o.livesched.check(); err != nil {
		return err
	}
	names, err := profilesNamed(args)
	if err != nil {
		return err
	}
	c, err := o.client()
	if err != nil {
		return err
	}
	config, err := o.flags.ToRESTConfig()
	if err != nil {
		return err
	}
	report, err := o.read(ctx, c, names)
	if err != nil {
		return err
	}
	pods := o.countPods(ctx, config, &o.livesched)
	report.setPods(pods)
	if err := o.print(report); err != nil || !o.watch {
		return err
	}
	return o.follow(ctx, config, names, report, pods)
}

// read reads the status of the named profiles, or of all, without the numbers of pods.
func (o *statusOptions) read(ctx context.Context, c client.Reader, names []string) (*statusReport, error) {
	var profiles v1alpha1.SchedulerProfileList
	if err := c.List(ctx, &profiles); err != nil {
		return nil, err
	}
	var policies v1alpha1.SchedulingPolicyList
	if err := c.List(ctx, &policies); err != nil {
		return nil, err
	}
	if err := only(&profiles, &policies, names); err != nil {
		return nil, err
	}
	// A cache has no order.
	slices.SortFunc(profiles.Items, func(a, b v1alpha1.SchedulerProfile) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(policies.Items, func(a, b v1alpha1.SchedulingPolicy) int { return cmp.Compare(a.Name, b.Name) })
	report := &statusReport{Profiles: []profileStatus{}, Policies: []policyStatus{}}
	for i := range profiles.Items {
		report.Profiles = append(report.Profiles, newProfileStatus(&profiles.Items[i]))
	}
	for i := range policies.Items {
		report.Policies = append(report.Policies, newPolicyStatus(&policies.Items[i]))
	}
	return report, nil
}

// setPods adds the numbers of pods.
func (r *statusReport) setPods(pods pendingPods) {
	r.PodsUnknown = pods.unknown
	for i := range r.Profiles {
		r.Profiles[i].Pods = pods.byProfile[r.Profiles[i].Name]
	}
}

// only keeps the named profiles and the policies that they build on. Without names it keeps all.
func only(profiles *v1alpha1.SchedulerProfileList, policies *v1alpha1.SchedulingPolicyList, names []string) error {
	if len(names) == 0 {
		return nil
	}
	var known []string
	for i := range profiles.Items {
		known = append(known, profiles.Items[i].Name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("there is no SchedulerProfile %q%s", name, suggest.DidYouMean(name, known))
		}
	}
	builtOn := sets.New[string]()
	profiles.Items = slices.DeleteFunc(profiles.Items, func(p v1alpha1.SchedulerProfile) bool { return !slices.Contains(names, p.Name) })
	for i := range profiles.Items {
		builtOn.Insert(policyNameOf(&profiles.Items[i].Spec), newProfileStatus(&profiles.Items[i]).Policy)
	}
	policies.Items = slices.DeleteFunc(policies.Items, func(p v1alpha1.SchedulingPolicy) bool { return !builtOn.Has(p.Name) })
	return nil
}

func newProfileStatus(p *v1alpha1.SchedulerProfile) profileStatus {
	s := profileStatus{
		Name: p.Name, SchedulerName: p.Status.SchedulerName, Generation: p.Generation, Policy: policyNameOf(&p.Spec),
		Ready:    readyOf(p.Status.Conditions, p.Generation),
		Accepted: stateOf(p.Status.Conditions, v1alpha1.ConditionAccepted), Programmed: stateOf(p.Status.Conditions, v1alpha1.ConditionProgrammed),
		Problems: problemsOf(p.Status.Conditions, p.Generation),
	}
	if s.SchedulerName == "" {
		s.SchedulerName = p.Spec.SchedulerName
	}
	if s.SchedulerName == "" {
		s.SchedulerName = p.Name
	}
	if active := p.Status.Active; active != nil {
		s.ActiveGeneration, s.Revision, s.Since = active.Generation, active.Revision, active.Since
		if active.Policy != nil {
			s.Policy, s.PolicyGeneration = active.Policy.Name, active.Policy.Generation
		}
	}
	return s
}

func newPolicyStatus(p *v1alpha1.SchedulingPolicy) policyStatus {
	return policyStatus{
		Name: p.Name, Generation: p.Generation, Profiles: p.Status.Profiles,
		Ready:    readyOf(p.Status.Conditions, p.Generation),
		Accepted: stateOf(p.Status.Conditions, v1alpha1.ConditionAccepted), Programmed: stateOf(p.Status.Conditions, v1alpha1.ConditionProgrammed),
		Problems: problemsOf(p.Status.Conditions, p.Generation),
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

// problemsOf returns the conditions that are not true, or that livesched has not processed the
// generation.
func problemsOf(conditions []metav1.Condition, generation int64) []string {
	var problems []string
	for _, of := range []string{v1alpha1.ConditionAccepted, v1alpha1.ConditionProgrammed} {
		condition := meta.FindStatusCondition(conditions, of)
		switch {
		case condition == nil:
			return []string{"livesched has not processed it: is livesched running?"}
		case condition.ObservedGeneration < generation:
			return []string{fmt.Sprintf("livesched has not processed generation %d yet", generation)}
		case condition.Status != metav1.ConditionTrue:
			problems = append(problems, fmt.Sprintf("%s is %s (%s): %s", of, condition.Status, condition.Reason, condition.Message))
		}
	}
	return problems
}

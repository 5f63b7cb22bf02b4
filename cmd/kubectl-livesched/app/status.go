// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/livesched/livesched/api/v1alpha1"
)

type statusOptions struct {
	*options
	queueOptions
	output string
}

// statusReport is the output of the command.
type statusReport struct {
	Profiles []profileStatus `json:"profiles"`
	Policies []policyStatus  `json:"policies"`
	// PodsFrom describes the source of the pod counts.
	PodsFrom string `json:"podsFrom"`
}

type profileStatus struct {
	Name          string `json:"name"`
	SchedulerName string `json:"schedulerName"`
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
	Policy           string    `json:"policy"`
	PolicyGeneration int64     `json:"policyGeneration,omitempty"`
	Pods             podCounts `json:"pods"`
	Problems         []string  `json:"problems,omitempty"`
}

type policyStatus struct {
	Name       string   `json:"name"`
	Accepted   string   `json:"accepted"`
	Programmed string   `json:"programmed"`
	Generation int64    `json:"generation"`
	Profiles   []string `json:"profiles,omitempty"`
	Problems   []string `json:"problems,omitempty"`
}

func newStatus(shared *options) *cobra.Command {
	o := &statusOptions{options: shared}
	command := &cobra.Command{
		Use:   "status [NAME...]",
		Short: "Show profiles and policies, their active revisions, and the pending pods",
		Long: "Show profiles with their active revisions and pending pods, the policies that they build on, and their problems. Without names, show all " +
			"profiles and policies.\n\n" +
			"The numbers of pods come from the leader's metrics. The command reads these through the API server, which requires the permission to get " +
			"pods/proxy in livesched's namespace, or from --metrics-url. If it cannot read them, it counts pods by their conditions.",
		Example: "  kubectl livesched status\n\n  kubectl livesched status binpack -o yaml",
		RunE:    func(command *cobra.Command, args []string) error { return o.run(command.Context(), args) },
	}
	addNamespaceFlag(command, &o.namespace)
	command.Flags().StringVar(&o.leaseName, "lease", "livesched", "Name of livesched's Lease: the value of its flag --leader-election-name.")
	command.Flags().StringVar(&o.metricsURL, "metrics-url", "", "URL of the metrics of livesched's leader, such as https://127.0.0.1:10259/metrics.")
	command.Flags().StringVar(&o.metricsToken, "metrics-token", "", "Bearer token for --metrics-url, such as that of 'kubectl create token'.")
	command.Flags().BoolVar(&o.metricsInsecure, "metrics-insecure-skip-tls-verify", false, "Accept any certificate of --metrics-url. For a forwarded port.")
	addOutputFlag(command, &o.output, formatWide, formatJSON, formatYAML)
	return command
}

func (o *statusOptions) run(ctx context.Context, names []string) error {
	c, err := o.client()
	if err != nil {
		return err
	}
	var profiles v1alpha1.SchedulerProfileList
	if err := c.List(ctx, &profiles); err != nil {
		return err
	}
	var policies v1alpha1.SchedulingPolicyList
	if err := c.List(ctx, &policies); err != nil {
		return err
	}
	if err := only(&profiles, &policies, names); err != nil {
		return err
	}
	pods, from, err := o.countPods(ctx, c, profiles.Items)
	if err != nil {
		return err
	}
	report := &statusReport{Profiles: []profileStatus{}, Policies: []policyStatus{}, PodsFrom: from}
	for i := range profiles.Items {
		status := newProfileStatus(&profiles.Items[i])
		status.Pods = pods[status.SchedulerName]
		report.Profiles = append(report.Profiles, status)
	}
	for i := range policies.Items {
		report.Policies = append(report.Policies, newPolicyStatus(&policies.Items[i]))
	}
	if o.output == formatJSON || o.output == formatYAML {
		return writeAs(o.Out, o.output, report)
	}
	return o.print(report)
}

// only keeps the named profiles and the policies that they build on. Without names it keeps all.
func only(profiles *v1alpha1.SchedulerProfileList, policies *v1alpha1.SchedulingPolicyList, names []string) error {
	if len(names) == 0 {
		return nil
	}
	wanted, builtOn := sets.New(names...), sets.New[string]()
	profiles.Items = slices.DeleteFunc(profiles.Items, func(p v1alpha1.SchedulerProfile) bool { return !wanted.Has(p.Name) })
	for i := range profiles.Items {
		wanted.Delete(profiles.Items[i].Name)
		builtOn.Insert(policyNameOf(&profiles.Items[i].Spec))
	}
	policies.Items = slices.DeleteFunc(policies.Items, func(p v1alpha1.SchedulingPolicy) bool { return !builtOn.Has(p.Name) })
	if wanted.Len() > 0 {
		return fmt.Errorf("no such SchedulerProfile: %s", strings.Join(sets.List(wanted), ", "))
	}
	return nil
}

func newProfileStatus(p *v1alpha1.SchedulerProfile) profileStatus {
	s := profileStatus{
		Name: p.Name, SchedulerName: p.Status.SchedulerName, Generation: p.Generation, Policy: policyNameOf(&p.Spec),
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
		Accepted: stateOf(p.Status.Conditions, v1alpha1.ConditionAccepted), Programmed: stateOf(p.Status.Conditions, v1alpha1.ConditionProgrammed),
		Problems: problemsOf(p.Status.Conditions, p.Generation),
	}
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

func (o *statusOptions) print(report *statusReport) error {
	header := []string{"PROFILE", "SCHEDULER NAME", "ACCEPTED", "PROGRAMMED", "REVISION", "SINCE", "GENERATION", "POLICY", "ACTIVE", "BACKOFF", "UNSCHEDULABLE", "GATED"}
	var rows [][]string
	for i := range report.Profiles {
		rows = append(rows, report.Profiles[i].row())
	}
	if len(rows) == 0 {
		_, _ = fmt.Fprintln(o.Out, "There are no SchedulerProfiles.")
	} else if err := writeTable(o.Out, header, rows); err != nil {
		return err
	}
	if len(report.Policies) > 0 {
		_, _ = fmt.Fprintln(o.Out)
		rows = nil
		for _, p := range report.Policies {
			rows = append(rows, []string{p.Name, p.Accepted, p.Programmed, fmt.Sprint(p.Generation), orNone(strings.Join(p.Profiles, ","))})
		}
		if err := writeTable(o.Out, []string{"POLICY", "ACCEPTED", "PROGRAMMED", "GENERATION", "PROFILES"}, rows); err != nil {
			return err
		}
	}
	for _, p := range report.Profiles {
		o.printProblems("schedulerprofile/"+p.Name, p.Problems)
	}
	for _, p := range report.Policies {
		o.printProblems("schedulingpolicy/"+p.Name, p.Problems)
	}
	if o.output == formatWide || strings.HasPrefix(report.PodsFrom, conditionsSource) {
		_, _ = fmt.Fprintf(o.Out, "\nPods: %s.\n", report.PodsFrom)
	}
	return nil
}

func (p *profileStatus) row() []string {
	since, revision, generation, policy := none, orNone(p.Revision), fmt.Sprint(p.Generation), p.Policy
	if !p.Since.IsZero() {
		since = duration.HumanDuration(time.Since(p.Since.Time))
	}
	if p.ActiveGeneration != p.Generation && p.ActiveGeneration != 0 {
		generation = fmt.Sprintf("%d (%d active)", p.Generation, p.ActiveGeneration)
	}
	switch {
	case p.PolicyGeneration > 0:
		policy += fmt.Sprintf("@%d", p.PolicyGeneration)
	case p.ActiveGeneration > 0 && p.Policy == defaultPolicy:
		policy = "built-in"
	}
	row := []string{p.Name, p.SchedulerName, p.Accepted, p.Programmed, revision, since, generation, policy}
	return append(row, p.Pods.row()...)
}

// none is the output for a missing value.
const none = "-"

func orNone(text string) string {
	if text == "" {
		return none
	}
	return text
}

func (o *statusOptions) printProblems(object string, problems []string) {
	for _, problem := range problems {
		_, _ = fmt.Fprintf(o.Out, "\n%s: %s\n", object, problem)
	}
}

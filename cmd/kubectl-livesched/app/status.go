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
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
)

type statusOptions struct {
	*options
	queueOptions
	output string
	watch  bool
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
	Policy           string    `json:"policy"`
	PolicyGeneration int64     `json:"policyGeneration,omitempty"`
	Pods             podCounts `json:"pods"`
	Problems         []string  `json:"problems,omitempty"`
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
		Use:   "status [NAME...]",
		Short: "Show profiles and policies, their active revisions, and the pending pods",
		Long: "Show profiles with their active revisions and pending pods, the policies that they build on, and their problems. Without names, show all " +
			"profiles and policies. The tables have at most 100 columns, or those of the terminal: -o wide shows whole names and more columns.\n\n" +
			"The numbers of pods come from the leader's metrics. The command reads these through the API server, which requires the permission to get " +
			"pods/proxy in livesched's namespace, or from --metrics-url. If it cannot read them, it counts pods by their conditions.",
		Example: "  kubectl livesched status\n\n  kubectl livesched status binpack -o yaml\n\n  # Follow a change\n  kubectl livesched status -w",
		RunE:    func(command *cobra.Command, args []string) error { return o.run(command.Context(), args) },
	}
	o.addFormerNamespaceFlag(command)
	command.Flags().StringVar(&o.leaseName, "lease", "livesched", "Name of livesched's Lease: the value of its flag --leader-election-name.")
	command.Flags().StringVar(&o.metricsURL, "metrics-url", "", "URL of the metrics of livesched's leader, such as https://127.0.0.1:10259/metrics.")
	command.Flags().StringVar(&o.metricsToken, "metrics-token", "", "Bearer token for --metrics-url, such as that of 'kubectl create token'.")
	command.Flags().BoolVar(&o.metricsInsecure, "metrics-insecure-skip-tls-verify", false, "Accept any certificate of --metrics-url. For a forwarded port.")
	addOutputFlag(command, &o.output, formatWide, formatJSON, formatYAML)
	command.Flags().BoolVarP(&o.watch, "watch", "w", false, "Show the status again whenever it changes, until interrupted.")
	return command
}

func (o *statusOptions) run(ctx context.Context, names []string) error {
	c, err := o.client()
	if err != nil {
		return err
	}
	report, err := o.read(ctx, c, names)
	if err != nil {
		return err
	}
	if err := o.print(report); err != nil || !o.watch {
		return err
	}
	return o.follow(ctx, c, names, report)
}

// watchInterval is the interval between two reads of the status while watching it.
const watchInterval = time.Second

// follow prints the status whenever it differs from the last one, until the context is done. A
// status that cannot be read is reported once, and read again.
func (o *statusOptions) follow(ctx context.Context, c client.Client, names []string, last *statusReport) error {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	lastFailure := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		report, err := o.read(ctx, c, names)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			if err.Error() != lastFailure {
				_, _ = fmt.Fprintf(o.ErrOut, "error: %v\n", err)
			}
			lastFailure = err.Error()
			continue
		case equality.Semantic.DeepEqual(report, last):
			continue
		}
		last, lastFailure = report, ""
		switch o.output {
		case formatYAML:
			_, _ = fmt.Fprintln(o.Out, "---")
		case "", formatWide:
			_, _ = fmt.Fprintf(o.Out, "\n%s\n", time.Now().Format(time.TimeOnly))
		}
		if err := o.print(report); err != nil {
			return err
		}
	}
}

// read reads the status of the named profiles, or of all.
func (o *statusOptions) read(ctx context.Context, c client.Client, names []string) (*statusReport, error) {
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
	pods, from, err := o.countPods(ctx, c, profiles.Items)
	if err != nil {
		return nil, err
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
	return report, nil
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

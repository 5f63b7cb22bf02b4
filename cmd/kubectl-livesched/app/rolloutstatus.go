// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/print"
)

type rolloutStatusOptions struct {
	*options
	output string
	watch  bool
}

func newRolloutStatus(shared *options) *cobra.Command {
	o := &rolloutStatusOptions{options: shared}
	command := &cobra.Command{
		Use:   "status " + profileUsage,
		Short: "Show the roll-out of a profile",
		Long: "Show the roll-out of a profile: its phase and what it waits for, the share and the number of " +
			"owners that each revision has, the steps, and the evidence against the new revision.\n\n" +
			"Exit codes: 0 for success, and 2 if the command fails. With --watch it also fails if the roll-out is " +
			"aborted, or if livesched does not accept the spec.",
		Example: "  kubectl livesched rollout status binpack\n\n  # Follow the roll-out until it has ended\n" +
			"  kubectl livesched rollout status binpack --watch",
		Args:              cobra.ExactArgs(1),
		RunE:              func(command *cobra.Command, args []string) error { return o.run(command.Context(), args) },
		ValidArgsFunction: function(atMost(1, shared.profileArguments)),
	}
	addOutputFlag(command, &o.output, print.JSON, print.YAML)
	command.Flags().BoolVarP(&o.watch, "watch", "w", false,
		"Show the roll-out again whenever it changes, until it has ended.")
	return command
}

func (o *rolloutStatusOptions) run(ctx context.Context, args []string) error {
	_, p, err := o.rolledOut(ctx, args)
	if err != nil {
		return err
	}
	report := print.NewProfileRollout(p)
	if err := o.print(report); err != nil || !o.watch {
		return err
	}
	f := &rolloutFollower{rolloutStatusOptions: o, profile: p}
	if done, err := f.ended(); done || err != nil {
		return err
	}
	config, err := o.flags.ToRESTConfig()
	if err != nil {
		return err
	}
	changes := &objectFollower[*print.ProfileRollout]{options: o.options, output: o.output, take: f.take, print: f.show,
		last: report}
	return changes.follow(ctx, config, &v1alpha1.SchedulerProfile{})
}

// print prints the report in the format that the user chose.
func (o *rolloutStatusOptions) print(report *print.ProfileRollout) error {
	if print.IsData(o.output) {
		return print.As(o.Out, o.output, report)
	}
	return report.Print(o.Out)
}

// rolloutFollower follows a roll-out.
type rolloutFollower struct {
	*rolloutStatusOptions
	profile *v1alpha1.SchedulerProfile // as it was read last
	// canary is the revision that was under way last, "" if there was none.
	canary string
}

// take returns the present roll-out.
func (f *rolloutFollower) take(ctx context.Context, objects client.Reader) (*print.ProfileRollout, error) {
	p, err := readRolledOut(ctx, objects, f.profile.Name)
	if err != nil {
		return nil, err
	}
	f.profile = p
	return print.NewProfileRollout(p), nil
}

// show prints the roll-out, and returns whether it has ended.
func (f *rolloutFollower) show(report *print.ProfileRollout) (done bool, err error) {
	if err := f.print(report); err != nil {
		return false, err
	}
	return f.ended()
}

// ended returns whether the roll-out has ended, with an error unless the new revision was promoted.
func (f *rolloutFollower) ended() (bool, error) {
	p, status := f.profile, f.profile.Status.Rollout
	if status == nil || p.Status.ObservedGeneration < p.Generation {
		return false, nil
	}
	fail := func(condition *metav1.Condition, what string) (bool, error) {
		return false, fmt.Errorf("schedulerprofile/%s is not %s (%s): %s", p.Name, what, condition.Reason,
			condition.Message)
	}
	if accepted := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionAccepted); accepted != nil &&
		accepted.Status == metav1.ConditionFalse {
		return fail(accepted, "accepted")
	}
	programmed := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionProgrammed)
	switch {
	case status.Phase == v1alpha1.RolloutDegraded:
		return false, fmt.Errorf("schedulerprofile/%s: the roll-out of revision %s was aborted: %s", p.Name,
			status.CanaryRevision, status.Message)
	case status.Phase != v1alpha1.RolloutHealthy:
		f.canary = status.CanaryRevision
		return false, nil
	case programmed != nil && programmed.Status == metav1.ConditionFalse:
		return fail(programmed, "programmed")
	case f.canary != "" && f.canary != status.CanaryRevision:
		return false, fmt.Errorf(
			"schedulerprofile/%s: revision %s was not promoted: the spec is that of revision %s now", p.Name,
			f.canary, status.CanaryRevision)
	}
	return programmed != nil && programmed.Status == metav1.ConditionTrue, nil
}

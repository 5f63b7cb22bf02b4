// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/history"
	"github.com/livesched/livesched/internal/rollout"
	"github.com/livesched/livesched/internal/scheduler/resolve"
	"github.com/livesched/livesched/internal/suggest"
)

// profileUsage is the argument of the commands that take one profile.
const profileUsage = "(NAME | profile/NAME)"

func newRollout(shared *options) *cobra.Command {
	command := &cobra.Command{
		Use:   "rollout COMMAND",
		Short: "Show or direct the roll-out of a changed profile",
		Long: "Show or direct the roll-out of a profile whose spec.rollout.strategy is Canary: promote, abort, " +
			"pause, resume or retry it.\n\n" +
			"Except for `status`, each command sets the annotation " + v1alpha1.AnnotationRollout + " of the profile, " +
			"with the revision that is rolled out. The spec does not change.",
		Example: "  # Follow a roll-out until it has ended\n  kubectl livesched rollout status binpack --watch\n\n" +
			"  # End the pause that the roll-out is in\n  kubectl livesched rollout promote binpack\n\n" +
			"  # Let the stable revision decide all pods\n  kubectl livesched rollout abort binpack",
		Args: aCommand,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(newRolloutStatus(shared))
	for i := range directions {
		command.AddCommand(newDirection(shared, &directions[i]))
	}
	return command
}

// aCommand returns an error about arguments of a command that only has commands.
func aCommand(command *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range command.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return fmt.Errorf("%q is not a command of %s: must be %s%s", args[0], command.Name(), suggest.OneOf(names),
		suggest.DidYouMean(args[0], names))
}

// direction is a command that directs a roll-out.
type direction struct {
	command rollout.Command
	short   string
	// from are the phases in which it has an effect.
	from []v1alpha1.RolloutPhase
	// done is what happens to the roll-out of the revision.
	done string
}

var underWay = []v1alpha1.RolloutPhase{v1alpha1.RolloutProgressing, v1alpha1.RolloutPaused}

var directions = []direction{
	{rollout.Promote, "End the present stage or pause of a roll-out", underWay, "continues"},
	{rollout.Abort, "Abort a roll-out: the stable revision decides all pods", underWay, "is aborted"},
	{rollout.Pause, "Pause a roll-out", underWay, "is paused"},
	{rollout.Resume, "Resume a roll-out that `rollout pause` has paused", underWay, "is resumed"},
	{rollout.Retry, "Start an aborted roll-out again", []v1alpha1.RolloutPhase{v1alpha1.RolloutDegraded},
		"starts again"},
}

// promoteFull is promote with --full.
var promoteFull = direction{command: rollout.PromoteFull, from: underWay, done: "ends: it decides all pods"}

func newDirection(shared *options, d *direction) *cobra.Command {
	var full bool
	command := &cobra.Command{
		Use:     string(d.command) + " " + profileUsage,
		Short:   d.short,
		Long:    d.short + ".",
		Example: "  kubectl livesched rollout " + string(d.command) + " binpack",
		Args:    cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if full {
				return shared.direct(command.Context(), args, &promoteFull)
			}
			return shared.direct(command.Context(), args, d)
		},
		ValidArgsFunction: function(atMost(1, shared.profileArguments)),
	}
	if d.command == rollout.Promote {
		command.Example += "\n\n  # Skip all steps\n  kubectl livesched rollout promote binpack --full"
		command.Flags().BoolVar(&full, "full", false, "End the roll-out at once: the new revision decides all pods.")
	}
	return command
}

// direct sets the annotation of a profile.
func (o *options) direct(ctx context.Context, args []string, d *direction) error {
	c, p, err := o.rolledOut(ctx, args)
	if err != nil {
		return err
	}
	if err := d.check(p); err != nil {
		return fmt.Errorf("schedulerprofile/%s: %w", p.Name, err)
	}
	revision := p.Status.Rollout.CanaryRevision
	before := p.DeepCopy()
	// The time makes it another command than the last one. If the spec has changed in the meantime,
	// livesched ignores the command, because it is about another revision.
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.AnnotationRollout,
		fmt.Sprintf("%s:%s:%s", d.command, revision, time.Now().UTC().Format(time.RFC3339)))
	if err := c.Patch(ctx, p, client.MergeFrom(before)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.Out, "schedulerprofile/%s: the roll-out of revision %s %s\n", p.Name, revision, d.done)
	return err
}

// check returns why the command would have no effect, nil if it has one.
func (d *direction) check(p *v1alpha1.SchedulerProfile) error {
	status := p.Status.Rollout
	switch {
	case status == nil || p.Status.ObservedGeneration < p.Generation:
		return fmt.Errorf("livesched has not processed generation %d yet", p.Generation)
	case !slices.Contains(d.from, status.Phase):
		return fmt.Errorf("%s needs a roll-out in the phase %s, not %s", d.command, phases(d.from), status.Phase)
	case d.command == rollout.Resume && !status.Paused:
		return errors.New("resume needs a roll-out that `rollout pause` has paused; `rollout promote` ends a step")
	}
	return nil
}

func phases(all []v1alpha1.RolloutPhase) string {
	var names []string
	for _, phase := range all {
		names = append(names, string(phase))
	}
	return suggest.OneOf(names)
}

// rolledOut returns the profile that the argument names, whose changes are rolled out step by step.
func (o *options) rolledOut(ctx context.Context, args []string) (client.Client, *v1alpha1.SchedulerProfile, error) {
	names, err := profilesNamed(args)
	if err != nil {
		return nil, nil, err
	}
	c, err := o.client()
	if err != nil {
		return nil, nil, err
	}
	p, err := readRolledOut(ctx, c, names[0])
	if apierrors.IsNotFound(err) {
		err = objectName{kind: history.KindProfile, name: names[0]}.notFound(ctx, c)
	}
	return c, p, err
}

// readRolledOut reads a profile whose changes are rolled out step by step.
func readRolledOut(ctx context.Context, c client.Reader, name string) (*v1alpha1.SchedulerProfile, error) {
	p := &v1alpha1.SchedulerProfile{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, p); err != nil {
		return nil, err
	}
	if !resolve.IsCanary(&p.Spec) {
		return nil, fmt.Errorf("schedulerprofile/%s has no roll-outs: spec.rollout.strategy must be %s", name,
			v1alpha1.RolloutCanary)
	}
	return p, nil
}

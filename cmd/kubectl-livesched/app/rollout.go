// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/rollout"
)

func newRollout(shared *options) *cobra.Command {
	command := &cobra.Command{
		Use:   "rollout",
		Short: "Direct the roll-out of a changed profile",
		Long: "Direct the roll-out of a profile whose spec.rollout.strategy is Canary: let it go on, hold it, or take " +
			"the change back.\n\n" +
			"Each command sets the annotation " + v1alpha1.AnnotationRollout + " of the profile, with the revision that " +
			"is rolled out. The spec is not changed. `kubectl livesched status` shows how far a roll-out is.",
		Example: "  kubectl livesched rollout promote shop\n\n  # Take the change back\n  kubectl livesched rollout abort shop",
		Args:    cobra.NoArgs,
	}
	var full bool
	for _, direct := range []struct {
		command      rollout.Command
		short        string
		phases       sets.Set[v1alpha1.RolloutPhase]
		impossible   string
		acknowledged string
	}{
		{rollout.Promote, "End the stage or the pause that a roll-out is in", underWay, notUnderWay, "goes on"},
		{rollout.Abort, "Take the change back: the stable revision decides all pods", underWay, notUnderWay, "is aborted"},
		{rollout.Pause, "Hold a roll-out where it is", underWay, notUnderWay, "is paused"},
		{rollout.Resume, "Let a roll-out go on that was paused", underWay, notUnderWay, "is resumed"},
		{rollout.Retry, "Begin an aborted roll-out anew", sets.New(v1alpha1.RolloutDegraded),
			"has no roll-out that was aborted", "begins anew"},
	} {
		sub := &cobra.Command{
			Use:   string(direct.command) + " (NAME | profile/NAME)",
			Short: direct.short,
			Args:  cobra.ExactArgs(1),
			RunE: func(command *cobra.Command, args []string) error {
				what := direct.command
				if full {
					what = rollout.PromoteFull
				}
				return shared.direct(command.Context(), args, what, direct.phases, direct.impossible, direct.acknowledged)
			},
		}
		if direct.command == rollout.Promote {
			sub.Flags().BoolVar(&full, "full", false, "End the roll-out at once: the new revision decides all pods.")
		}
		command.AddCommand(sub)
	}
	return command
}

var underWay = sets.New(v1alpha1.RolloutProgressing, v1alpha1.RolloutPaused)

const notUnderWay = "has no roll-out under way"

// direct sets the annotation of a profile.
func (o *options) direct(ctx context.Context, args []string, what rollout.Command,
	phases sets.Set[v1alpha1.RolloutPhase], impossible, acknowledged string) error {
	names, err := profilesNamed(args)
	if err != nil {
		return err
	}
	c, err := o.client()
	if err != nil {
		return err
	}
	p := &v1alpha1.SchedulerProfile{}
	if err := c.Get(ctx, client.ObjectKey{Name: names[0]}, p); err != nil {
		return err
	}
	status := p.Status.Rollout
	switch {
	case status == nil:
		return errors.New("schedulerprofile/" + p.Name + " is not rolled out step by step: see spec.rollout")
	case p.Status.ObservedGeneration != p.Generation:
		return errors.New("livesched has not processed generation " + fmt.Sprint(p.Generation) + " of schedulerprofile/" +
			p.Name + " yet")
	case !phases.Has(status.Phase):
		return errors.New("schedulerprofile/" + p.Name + " " + impossible)
	}
	before := p.DeepCopy()
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Annotations[v1alpha1.AnnotationRollout] = fmt.Sprintf("%s:%s:%s", what, status.CanaryRevision,
		time.Now().UTC().Format(time.RFC3339))
	if err := c.Patch(ctx, p, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.Out, "the roll-out of revision %s of schedulerprofile/%s %s\n", status.CanaryRevision, p.Name,
		acknowledged)
	return err
}

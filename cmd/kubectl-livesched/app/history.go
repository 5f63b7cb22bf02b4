// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/print"
	"github.com/livesched/livesched/internal/history"
)

type historyOptions struct {
	*options
	revision string
	output   string
}

func newHistory(shared *options) *cobra.Command {
	o := &historyOptions{options: shared}
	command := &cobra.Command{
		Use:   "history " + objectUsage,
		Short: "List the revisions of a profile or policy, or show one",
		Long: "List the stored revisions of a profile or policy. A star marks the active one. A revision of a " +
			"profile includes the policy that it was built " +
			"on.\n\n" +
			"ACTIVE SINCE is when the revision became active last, BY the field manager of that change, such as " +
			"kubectl-client-side-apply, and CHANGE-CAUSE " +
			"the annotation kubernetes.io/change-cause that the object had. Revisions of older versions of livesched " +
			"do not have them.\n\n" +
			"With --revision, print one revision as manifests that you can apply.",
		Example: "  kubectl livesched history binpack\n\n  # Show the revision with the number 3\n  kubectl " +
			"livesched history profile/binpack --revision 3",
		Args: oneObject,
		RunE: func(command *cobra.Command, args []string) error { return o.run(command.Context(), args) },
	}
	o.addFormerNamespaceFlag(command)
	command.Flags().StringVar(&o.revision, "revision", "", "The revision to show: "+revisionHelp)
	addOutputFlag(command, &o.output, print.Wide, print.JSON, print.YAML)
	return command
}

func (o *historyOptions) run(ctx context.Context, args []string) error {
	_, p, err := o.past(ctx, args)
	if err != nil {
		return err
	}
	if !isDefault(o.revision) {
		revision, err := p.find(o.revision)
		if err != nil {
			return err
		}
		return o.show(p, revision)
	}
	views := []print.Revision{}
	for i := range p.revisions {
		views = append(views, view(p, &p.revisions[i]))
	}
	if print.IsData(o.output) {
		return print.As(o.Out, o.output, views)
	}
	if len(views) == 0 {
		print.Line(o.Out, fmt.Sprintf("%s has no revisions in namespace %s: it has never been active, or livesched "+
			"runs in another namespace (--livesched-namespace)", p, o.liveschedNamespace))
		return nil
	}
	return print.Revisions(o.Out, views, p.profile != nil, o.output == print.Wide)
}

// show prints one revision, by default as manifests.
func (o *historyOptions) show(p *past, r *history.Revision) error {
	v := view(p, r)
	if print.IsData(o.output) {
		return print.As(o.Out, o.output, v)
	}
	for i, manifest := range v.Manifests {
		if i > 0 {
			_, _ = fmt.Fprintln(o.Out, "---")
		}
		if err := print.As(o.Out, print.YAML, manifest); err != nil {
			return err
		}
	}
	return nil
}

func view(p *past, r *history.Revision) print.Revision {
	v := print.Revision{
		Number: r.Number, Revision: r.Hash, Active: r == p.running(), By: r.By, ChangeCause: r.Cause,
		Created:    r.Created.UTC(),
		Generation: r.Generation, Name: r.Name, Manifests: []any{},
	}
	switch {
	case !r.Since.IsZero():
		v.ActiveSince = r.Since.UTC()
	case v.Active && p.profile != nil: // status knows it, also of a revision of an older version
		v.ActiveSince = p.profile.Status.Active.Since.UTC()
	}
	if r.Policy != nil {
		v.Policy = fmt.Sprintf("%s (generation %d)", r.Policy.Name, r.Policy.Generation)
		v.Manifests = append(v.Manifests, newPolicy(r.Policy.Name, &r.Policy.Spec))
	}
	if r.Profile != nil {
		v.Manifests = append(v.Manifests, newProfile(r.ObjectName, r.Profile))
	}
	return v
}

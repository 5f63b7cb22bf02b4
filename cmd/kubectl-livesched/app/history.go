// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/print"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
	"github.com/livesched/livesched/internal/history"
)

type historyOptions struct {
	*options
	revision string
	output   string
}

// revisionView is the output for one revision in JSON and YAML.
type revisionView struct {
	// Number of the revision in the history, and its name as status has it.
	Number   int64  `json:"number"`
	Revision string `json:"revision"`
	Active   bool   `json:"active"`
	// ActiveSince is when the revision became active last.
	ActiveSince time.Time `json:"activeSince,omitzero"`
	// By is the field manager of the change, and ChangeCause the annotation
	// kubernetes.io/change-cause.
	By          string    `json:"by,omitempty"`
	ChangeCause string    `json:"changeCause,omitempty"`
	Created     time.Time `json:"created"`
	Generation  int64     `json:"generation"`
	// Name of the ControllerRevision.
	Name string `json:"name"`
	// Manifests restore the revision when they are applied: the policy of a profile comes first.
	Manifests []any `json:"manifests"`
}

func newHistory(shared *options) *cobra.Command {
	o := &historyOptions{options: shared}
	command := &cobra.Command{
		Use:   "history " + objectUsage,
		Short: "List the revisions of a profile or policy, or show one",
		Long: "List the stored revisions of a profile or policy. A star marks the active one. A revision of a profile includes the policy that it was built " +
			"on.\n\n" +
			"ACTIVE SINCE is when the revision became active last, BY the field manager of that change, such as kubectl-client-side-apply, and CHANGE-CAUSE " +
			"the annotation kubernetes.io/change-cause that the object had. Revisions of older versions of livesched do not have them.\n\n" +
			"With --revision, print one revision as manifests that you can apply.",
		Example: "  kubectl livesched history binpack\n\n  # Show the revision with the number 3\n  kubectl livesched history profile/binpack --revision 3",
		Args:    oneObject,
		RunE:    func(command *cobra.Command, args []string) error { return o.run(command.Context(), args) },
	}
	o.addFormerNamespaceFlag(command)
	command.Flags().StringVar(&o.revision, "revision", "", "The revision to show: "+revisionHelp)
	addOutputFlag(command, &o.output, formatWide, formatJSON, formatYAML)
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
	if isData(o.output) {
		views := []revisionView{}
		for i := range p.revisions {
			views = append(views, view(p, &p.revisions[i]))
		}
		return writeAs(o.Out, o.output, views)
	}
	if len(p.revisions) == 0 {
		writeLine(o.Out, fmt.Sprintf("%s has no revisions in namespace %s: it has never been active, or livesched runs in another namespace (--livesched-namespace)", p, o.liveschedNamespace))
		return nil
	}
	return o.table(p)
}

func (o *historyOptions) table(p *past) error {
	wide := o.output == formatWide
	header := []string{"NUMBER", "REVISION", "ACTIVE SINCE", "BY"}
	if wide {
		header = append(header, "GENERATION", "CREATED", "POLICY")
	}
	if wide && p.policy != nil {
		header = header[:len(header)-1]
	}
	header = append(header, "CHANGE-CAUSE")
	var rows [][]string
	for i := range p.revisions {
		rows = append(rows, o.row(view(p, &p.revisions[i]), &p.revisions[i]))
	}
	if !wide {
		rows = fitted(terminal.Of(o.Out).Width(), header, rows, len(header)-1, len(header)-2)
	}
	return writeTable(o.Out, header, rows)
}

// row returns the row of a revision.
func (o *historyOptions) row(v revisionView, r *history.Revision) []string {
	number := fmt.Sprint(v.Number)
	if v.Active {
		number += " *"
	}
	since := print.None
	if !v.ActiveSince.IsZero() {
		since = duration.HumanDuration(time.Since(v.ActiveSince))
	}
	by := cmp.Or(v.By, print.None)
	cause := cmp.Or(v.ChangeCause, print.None)
	if o.output != formatWide {
		return []string{number, v.Revision, since, by, cause}
	}
	row := []string{number, v.Revision, since, by, fmt.Sprint(v.Generation), duration.HumanDuration(time.Since(v.Created))}
	if r.Profile != nil {
		row = append(row, policyOf(r))
	}
	return append(row, cause)
}

// policyOf describes the policy that a revision of a profile was built on.
func policyOf(r *history.Revision) string {
	if r.Policy == nil {
		return "built-in defaults"
	}
	return fmt.Sprintf("%s (generation %d)", r.Policy.Name, r.Policy.Generation)
}

// show prints one revision, by default as manifests.
func (o *historyOptions) show(p *past, r *history.Revision) error {
	v := view(p, r)
	if isData(o.output) {
		return writeAs(o.Out, o.output, v)
	}
	for i, manifest := range v.Manifests {
		if i > 0 {
			_, _ = fmt.Fprintln(o.Out, "---")
		}
		if err := writeAs(o.Out, formatYAML, manifest); err != nil {
			return err
		}
	}
	return nil
}

func view(p *past, r *history.Revision) revisionView {
	v := revisionView{
		Number: r.Number, Revision: r.Hash, Active: r == p.running(), By: r.By, ChangeCause: r.Cause, Created: r.Created.UTC(),
		Generation: r.Generation, Name: r.Name, Manifests: []any{},
	}
	switch {
	case !r.Since.IsZero():
		v.ActiveSince = r.Since.UTC()
	case v.Active && p.profile != nil: // status knows it, also of a revision of an older version
		v.ActiveSince = p.profile.Status.Active.Since.UTC()
	}
	if r.Policy != nil {
		v.Manifests = append(v.Manifests, newPolicy(r.Policy.Name, &r.Policy.Spec))
	}
	if r.Profile != nil {
		v.Manifests = append(v.Manifests, newProfile(r.ObjectName, r.Profile))
	}
	return v
}

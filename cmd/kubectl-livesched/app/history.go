// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/livesched/livesched/internal/history"
)

type historyOptions struct {
	*options
	revision int64
	output   string
}

// revisionView is the output for one revision in JSON and YAML.
type revisionView struct {
	Revision   int64     `json:"revision"`
	Running    bool      `json:"running"`
	Created    time.Time `json:"created"`
	Generation int64     `json:"generation"`
	Hash       string    `json:"hash"`
	// Name of the ControllerRevision.
	Name string `json:"name"`
	// Manifests restore the revision when they are applied: the policy of a profile comes first.
	Manifests []any `json:"manifests"`
}

func newHistory(shared *options) *cobra.Command {
	o := &historyOptions{options: shared}
	command := &cobra.Command{
		Use:   "history (profile|policy) NAME",
		Short: "List the revisions of a profile or policy, or show one",
		Long: "List the stored revisions of a profile or policy. A star marks the active one. A revision of a profile includes the policy that it was built " +
			"on.\n\nWith --revision, print one revision as manifests that you can apply.",
		Example: "  kubectl livesched history profile binpack\n\n  # Show revision 3\n  kubectl livesched history profile binpack --revision 3",
		Args:    cobra.RangeArgs(1, 2),
		RunE:    func(command *cobra.Command, args []string) error { return o.run(command.Context(), args) },
	}
	o.addFormerNamespaceFlag(command)
	command.Flags().Int64Var(&o.revision, "revision", 0, "The revision to show.")
	addOutputFlag(command, &o.output, formatJSON, formatYAML)
	return command
}

func (o *historyOptions) run(ctx context.Context, args []string) error {
	_, p, err := o.past(ctx, args)
	if err != nil {
		return err
	}
	if o.revision != 0 {
		revision, err := p.numbered(o.revision)
		if err != nil {
			return err
		}
		return o.show(p, revision)
	}
	if o.output != "" {
		views := []revisionView{}
		for i := range p.revisions {
			views = append(views, view(p, &p.revisions[i]))
		}
		return writeAs(o.Out, o.output, views)
	}
	if len(p.revisions) == 0 {
		_, err := fmt.Fprintf(o.Out, "%s has no revisions in namespace %s: it has never been active, or livesched runs in another namespace (--livesched-namespace)\n", p, o.liveschedNamespace)
		return err
	}
	return o.table(p)
}

func (o *historyOptions) table(p *past) error {
	header := []string{"REVISION", "GENERATION", "HASH", "AGE"}
	if p.profile != nil {
		header = append(header, "POLICY")
	}
	var rows [][]string
	for i := range p.revisions {
		r := &p.revisions[i]
		number := fmt.Sprint(r.Number)
		if r == p.running() {
			number += " *"
		}
		row := []string{number, fmt.Sprint(r.Generation), r.Hash, duration.HumanDuration(time.Since(r.Created))}
		if p.profile != nil {
			row = append(row, policyOf(r))
		}
		rows = append(rows, row)
	}
	return writeTable(o.Out, header, rows)
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
	if o.output != "" {
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
		Revision: r.Number, Running: r == p.running(), Created: r.Created.UTC(), Generation: r.Generation, Hash: r.Hash, Name: r.Name,
		Manifests: []any{},
	}
	if r.Policy != nil {
		v.Manifests = append(v.Manifests, newPolicy(r.Policy.Name, &r.Policy.Spec))
	}
	if r.Profile != nil {
		v.Manifests = append(v.Manifests, newProfile(r.ObjectName, r.Profile))
	}
	return v
}

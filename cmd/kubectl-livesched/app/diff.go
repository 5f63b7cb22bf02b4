// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
	"github.com/livesched/livesched/internal/history"
	"github.com/livesched/livesched/internal/scheduler/config"
)

type diffOptions struct {
	*options
	files     []string
	recursive bool
	from, to  int64
	plugins   []string
	output    string

	client     client.Client
	registered sets.Set[string]
}

// side is one side of a comparison: a resolved profile.
type side struct {
	// label describes the side to the user.
	label string
	// description is nil if there is no such profile.
	description *config.Description
}

// difference is the output for one profile in JSON and YAML.
type difference struct {
	Profile string              `json:"profile"`
	Differs bool                `json:"differs"`
	From    string              `json:"from"`
	To      string              `json:"to"`
	Before  *config.Description `json:"before"`
	After   *config.Description `json:"after"`
}

func newDiff(shared *options) *cobra.Command {
	o := &diffOptions{options: shared}
	command := &cobra.Command{
		Use:   "diff (NAME [--from N] [--to M] | -f FILE)",
		Short: "Compare resolved profiles: plugins, weights, arguments, settings",
		Long: "Compare resolved profiles, merged over their policies and with all defaults: the plugins at each extension point with their " +
			"weights, the arguments of plugins, and the settings of the policy.\n\n" +
			"With a name, compare the active revision with the applied spec; they differ while livesched does not accept the spec. With --from and --to, " +
			"compare two revisions; the active revision replaces the one that you omit. With files, compare the active revisions with the result of " +
			"applying the files; a policy in the files affects all profiles that build on it.\n\n" +
			"The exit code is 1 if there are differences.",
		Example: "  kubectl livesched diff -f binpack.yaml\n\n  # What revision 3 changed\n  kubectl livesched diff binpack --from 2 --to 3",
		Args:    cobra.MaximumNArgs(1),
		RunE:    func(command *cobra.Command, args []string) error { return o.run(command.Context(), args) },
	}
	o.addFormerNamespaceFlag(command)
	flags := command.Flags()
	flags.StringSliceVarP(&o.files, "filename", "f", nil, "File or directory with SchedulerProfiles and SchedulingPolicies; - is standard input. The flag can be repeated.")
	flags.BoolVarP(&o.recursive, "recursive", "R", false, "Also read subdirectories.")
	flags.Int64Var(&o.from, "from", 0, "Revision on the left; 0 is the active one.")
	flags.Int64Var(&o.to, "to", 0, "Revision on the right; 0 is the active one.")
	addPluginsFlag(command, &o.plugins)
	addOutputFlag(command, &o.output, formatJSON, formatYAML)
	return command
}

func (o *diffOptions) run(ctx context.Context, args []string) error {
	if (len(args) == 0) == (len(o.files) == 0) {
		return errors.New("specify either a profile or files (-f)")
	}
	if len(o.files) > 0 && (o.from != 0 || o.to != 0) {
		return errors.New("--from and --to require the name of a profile and do not work with -f")
	}
	var err error
	if o.registered, err = registered(o.plugins); err != nil {
		return err
	}
	if o.client, err = o.options.client(); err != nil {
		return err
	}
	var differences []difference
	if len(args) > 0 {
		differences, err = o.compareRevisions(ctx, args[0])
	} else {
		differences, err = o.compareFiles(ctx)
	}
	if err != nil {
		return err
	}
	return o.print(differences)
}

// compareRevisions compares two revisions, or the active revision with the applied spec.
func (o *diffOptions) compareRevisions(ctx context.Context, name string) ([]difference, error) {
	p, err := readPast(ctx, o.client, o.liveschedNamespace, history.KindProfile, name)
	if err != nil {
		return nil, err
	}
	from, err := o.revision(ctx, p, o.from)
	if err != nil {
		return nil, err
	}
	var to side
	if o.from == 0 && o.to == 0 {
		to, err = o.applied(ctx, p)
	} else {
		to, err = o.revision(ctx, p, o.to)
	}
	if err != nil {
		return nil, err
	}
	return []difference{newDifference(name, from, to)}, nil
}

func newDifference(name string, from, to side) difference {
	d := difference{Profile: name, From: from.label, To: to.label, Before: from.description, After: to.description}
	d.Differs = text(from.description) != text(to.description)
	return d
}

// text returns a description as YAML, whose lines can be compared.
func text(d *config.Description) string {
	if d == nil {
		return ""
	}
	// Through JSON, so that arguments become fields instead of bytes.
	raw, err := json.Marshal(d)
	var fields map[string]any
	if err == nil {
		err = json.Unmarshal(raw, &fields)
	}
	var out bytes.Buffer
	if err == nil {
		err = writeAs(&out, formatYAML, fields)
	}
	if err != nil {
		return err.Error()
	}
	return out.String()
}

func (o *diffOptions) print(differences []difference) error {
	differ := false
	for i := range differences {
		differ = differ || differences[i].Differs
	}
	if o.output != "" {
		if err := writeAs(o.Out, o.output, differences); err != nil {
			return err
		}
	} else {
		for i := range differences {
			if err := o.printOne(&differences[i]); err != nil {
				return err
			}
		}
	}
	if differ {
		return errFound
	}
	return nil
}

func (o *diffOptions) printOne(d *difference) error {
	if !d.Differs {
		_, err := fmt.Fprintf(o.ErrOut, "schedulerprofile/%s: %s and %s are the same\n", d.Profile, d.From, d.To)
		return err
	}
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: lines(text(d.Before)), B: lines(text(d.After)),
		FromFile: fmt.Sprintf("schedulerprofile/%s: %s", d.Profile, d.From), ToFile: fmt.Sprintf("schedulerprofile/%s: %s", d.Profile, d.To),
		Context: 3,
	})
	if err != nil {
		return err
	}
	return terminal.Of(o.Out).Diff(text)
}

// lines splits a text into lines. An empty text has no lines.
func lines(text string) []string {
	if text == "" {
		return nil
	}
	split := difflib.SplitLines(text)
	return split[:len(split)-1] // SplitLines adds an empty line at the end
}

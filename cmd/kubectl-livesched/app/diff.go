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

	"github.com/livesched/livesched/internal/history"
	"github.com/livesched/livesched/internal/scheduler/config"
)

type diffOptions struct {
	*options
	namespace string
	files     []string
	recursive bool
	from, to  int64
	plugins   []string
	output    string

	client     client.Client
	registered sets.Set[string]
}

// side is a profile as it is or would be resolved.
type side struct {
	// label says what it is.
	label string
	// description is nil where there is no such profile.
	description *config.Description
}

// difference is one profile in JSON and YAML.
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
		Short: "Compare profiles as they are resolved: plugins, weights, arguments, settings",
		Long: "Compare profiles as they are resolved, merged over their policies and with all defaults: the plugins at each extension point with their " +
			"weights, the arguments of plugins, and the settings of the policy.\n\n" +
			"With a name: what runs with what is applied, which is another while that is not accepted; with --from and --to, two " +
			"revisions, where one that is left out is what runs. With files: what runs with what would if the files were applied; a policy in " +
			"the files counts for all profiles that build on it. Exits with 1 if there are differences.",
		Example: "  kubectl livesched diff -f binpack.yaml\n\n  # What revision 3 changed\n  kubectl livesched diff binpack --from 2 --to 3",
		Args:    cobra.MaximumNArgs(1),
		RunE:    func(command *cobra.Command, args []string) error { return o.run(command.Context(), args) },
	}
	addNamespaceFlag(command, &o.namespace)
	flags := command.Flags()
	flags.StringSliceVarP(&o.files, "filename", "f", nil, "File or directory with SchedulerProfiles and SchedulingPolicies; - is standard input. Can be repeated.")
	flags.BoolVarP(&o.recursive, "recursive", "R", false, "Read the directories in directories, too.")
	flags.Int64Var(&o.from, "from", 0, "Revision on the left; 0 is what runs.")
	flags.Int64Var(&o.to, "to", 0, "Revision on the right; 0 is what runs.")
	addPluginsFlag(command, &o.plugins)
	addOutputFlag(command, &o.output, formatJSON, formatYAML)
	return command
}

func (o *diffOptions) run(ctx context.Context, args []string) error {
	if (len(args) == 0) == (len(o.files) == 0) {
		return errors.New("name a profile, or files with -f")
	}
	if len(o.files) > 0 && (o.from != 0 || o.to != 0) {
		return errors.New("--from and --to are revisions of a profile: name it, without -f")
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

// compareRevisions compares two revisions, or what runs with what is applied.
func (o *diffOptions) compareRevisions(ctx context.Context, name string) ([]difference, error) {
	p, err := readPast(ctx, o.client, o.namespace, history.KindProfile, name)
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

// text is a description for people, in lines that can be compared.
func text(d *config.Description) string {
	if d == nil {
		return ""
	}
	// Through JSON, so that arguments are fields, not bytes.
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
	return difflib.WriteUnifiedDiff(o.Out, difflib.UnifiedDiff{
		A: lines(text(d.Before)), B: lines(text(d.After)),
		FromFile: fmt.Sprintf("schedulerprofile/%s: %s", d.Profile, d.From), ToFile: fmt.Sprintf("schedulerprofile/%s: %s", d.Profile, d.To),
		Context: 3,
	})
}

// lines splits a text into its lines. An empty text has none.
func lines(text string) []string {
	if text == "" {
		return nil
	}
	split := difflib.SplitLines(text)
	return split[:len(split)-1] // it makes one more of the end
}

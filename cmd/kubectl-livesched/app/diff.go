// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/print"
)

type diffOptions struct {
	*options
	fileOptions
	from, to string
	plugins  []string
	output   string

	differ
}

func newDiff(shared *options) *cobra.Command {
	o := &diffOptions{options: shared}
	command := &cobra.Command{
		Use:   "diff (NAME | profile/NAME | policy/NAME | -f FILE)",
		Short: "Compare resolved profiles: plugins, weights, arguments, settings",
		Long: "Compare resolved profiles, merged over their policies and with all defaults: the plugins at each " +
			"extension point with their " +
			"weights, the arguments of plugins, and the settings of the policy.\n\n" +
			"With a name, compare the active revision with the applied spec. They differ while livesched does not " +
			"accept the spec: then the command also " +
			"prints the reason, to standard error. With --from and --to, compare two revisions; the active revision " +
			"replaces the one that you omit. With " +
			"files, compare the active revisions with the result of applying the files; a policy in the files " +
			"affects all profiles that build on it.\n\n" +
			"What cannot be resolved is compared as it was written: specs that livesched does not accept, and " +
			"policies that you name.\n\n" +
			"Exit codes: 0 if there are no differences, 1 if there are, 2 if the command fails.",
		Example: "  kubectl livesched diff -f binpack.yaml\n\n  # What the revision with the number 3 changed\n  " +
			"kubectl livesched diff binpack --from 2 --to 3",
		Args: func(command *cobra.Command, args []string) error {
			switch files := len(o.files) > 0; {
			case files && len(args) > 0:
				return errors.New("specify either a profile or policy, or files (-f)")
			case files && (!isDefault(o.from) || !isDefault(o.to)):
				return errors.New(
					"--from and --to require the name of a profile or policy, and do not work with --filename")
			case files:
				return nil
			case len(args) == 0:
				return errors.New("specify a profile or policy (NAME, profile/NAME or policy/NAME), or files (-f)")
			}
			return oneObject(command, args)
		},
		RunE: func(command *cobra.Command, args []string) error { return o.run(command.Context(), args) },
	}
	o.addFormerNamespaceFlag(command)
	flags := command.Flags()
	o.addFileFlags(command, "SchedulerProfiles and SchedulingPolicies")
	flags.StringVar(&o.from, "from", "", "Revision on the left; without it, the active one: "+revisionHelp)
	flags.StringVar(&o.to, "to", "", "Revision on the right; without it, the active one.")
	addPluginsFlag(command, &o.plugins)
	addOutputFlag(command, &o.output, print.JSON, print.YAML)
	return command
}

func (o *diffOptions) run(ctx context.Context, args []string) error {
	var differences []print.Difference
	var err error
	if len(args) > 0 {
		differences, err = o.compareRevisions(ctx, args)
	} else {
		differences, err = o.compareFiles(ctx)
	}
	if err != nil {
		return err
	}
	return o.print(differences)
}

// compareRevisions compares two revisions, or the active revision with the applied spec.
func (o *diffOptions) compareRevisions(ctx context.Context, args []string) ([]print.Difference, error) {
	c, p, err := o.past(ctx, args)
	if err != nil {
		return nil, err
	}
	o.differ = o.newDiffer(c, o.plugins)
	from, err := o.revision(ctx, p, o.from)
	if err != nil {
		return nil, err
	}
	var to print.Side
	if isDefault(o.from) && isDefault(o.to) {
		to, err = o.applied(ctx, p)
	} else {
		to, err = o.revision(ctx, p, o.to)
	}
	if err != nil {
		return nil, err
	}
	return []print.Difference{print.NewDifference(p.kind, p.object().GetName(), from, to)}, nil
}

func (o *diffOptions) print(differences []print.Difference) error {
	found := false
	for i := range differences {
		found = found || differences[i].Differs
	}
	if o.output != "" {
		if err := print.As(o.Out, o.output, differences); err != nil {
			return err
		}
	} else {
		for i := range differences {
			if err := differences[i].Print(o.Out, o.ErrOut); err != nil {
				return err
			}
		}
	}
	if found {
		return errFound
	}
	return nil
}

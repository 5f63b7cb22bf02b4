// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/kubectl/pkg/util/templates"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
)

// groups returns the commands in the order of the help.
func (o *options) groups() templates.CommandGroups {
	return templates.CommandGroups{
		{Message: "Pods and Capacity:",
			Commands: []*cobra.Command{newExplain(o), newDecisions(o), newTop(o), newDashboard(o), newSimulate(o), newCapacity(o)}},
		{Message: "Profiles and Policies:", Commands: []*cobra.Command{
			newStatus(o), newDiff(o), newHistory(o), newRollback(o), newRollout(o), newValidate(o), newConvert(o),
			newSchema(o),
		}},
		{Message: "Troubleshooting:", Commands: []*cobra.Command{newDoctor(o), newSnapshot(o), newReplay(o)}},
	}
}

// addHelp gives the commands kubectl's help: groups of commands, and the global flags in a command
// of their own, `options`. Text is wrapped at the width of the terminal.
func addHelp(root *cobra.Command, groups templates.CommandGroups) {
	root.AddCommand(newGlobalOptions())
	templates.ActsAsRootCommand(root, []string{"options"}, groups...)
	write := root.HelpFunc()
	root.SetHelpFunc(func(command *cobra.Command, args []string) {
		out := command.OutOrStdout()
		var text bytes.Buffer
		command.SetOut(&text)
		write(command, args)
		command.SetOut(out)
		// kubectl's templates take the name of the file of a plugin for the name of its command.
		shown := strings.ReplaceAll(text.String(), `"`+root.Name()+" ", `"`+root.CommandPath()+" ")
		terminal.Of(out).Text(shown)
	})
	for _, command := range root.Commands() {
		addUsageHint(command)
	}
}

// addUsageHint makes errors about arguments name the help, of a command and its subcommands.
func addUsageHint(command *cobra.Command) {
	command.DisableFlagsInUseLine = true // the templates add [options]
	if check := command.Args; check != nil {
		command.Args = func(command *cobra.Command, args []string) error {
			return withHint(command, argumentError(command, args, check(command, args)))
		}
	}
	for _, sub := range command.Commands() {
		addUsageHint(sub)
	}
}

// withHint adds to an error how to get the help of the command.
func withHint(command *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w\n%s", err, "See '"+command.CommandPath()+" --help' for usage.")
}

// newGlobalOptions returns the command that lists the flags of all commands.
func newGlobalOptions() *cobra.Command {
	command := &cobra.Command{
		Use:   "options",
		Short: "Print the flags of all commands",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			out := command.OutOrStdout()
			var text bytes.Buffer
			command.SetOut(&text)
			command.SetErr(&text)
			err := command.Usage()
			terminal.Of(out).Text(text.String())
			return err
		},
	}
	templates.UseOptionsTemplates(command)
	command.SetHelpFunc(func(command *cobra.Command, _ []string) {
		terminal.Of(command.OutOrStdout()).Text(command.Short + ".\n\nUsage:\n  " + command.UseLine() + "\n\n")
		_ = command.RunE(command, nil) // its template does not fail
	})
	return command
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
)

// addColorFlag adds --color.
func (o *options) addColorFlag(root *cobra.Command) {
	root.PersistentFlags().StringVar(&o.color, "color", string(terminal.ColorAuto),
		"Colours in the output: auto, always or never. With auto, on a terminal only, and not if NO_COLOR is set.")
	modes := []string{string(terminal.ColorAuto), string(terminal.ColorAlways), string(terminal.ColorNever)}
	_ = root.RegisterFlagCompletionFunc("color", cobra.FixedCompletions(modes, cobra.ShellCompDirectiveNoFileComp))
}

// addNoHeadersFlag adds --no-headers to the commands whose output is one or two tables.
func addNoHeadersFlag(root *cobra.Command) {
	for _, command := range root.Commands() {
		switch command.Name() {
		case "decisions", "history", "status":
			command.Flags().Bool(noHeaders, false, "Print tables without headers.")
		}
	}
}

const noHeaders = "no-headers"

// openTerminal makes the output of a command a Terminal, which has its width and colours.
func (o *options) openTerminal(command *cobra.Command) error {
	mode, err := terminal.ParseColorMode(o.color)
	if err != nil {
		return fmt.Errorf("--color: %w", err)
	}
	t := terminal.New(o.Out, mode)
	if without, err := command.Flags().GetBool(noHeaders); err == nil && without {
		t = t.WithoutHeaders()
	}
	o.Out = t
	return nil
}

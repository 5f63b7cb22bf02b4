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

// openTerminal makes the output a Terminal, whose width and colours commands find with terminal.Of.
func (o *options) openTerminal() error {
	mode, err := terminal.ParseColorMode(o.color)
	if err != nil {
		return fmt.Errorf("--color: %w", err)
	}
	o.Out = terminal.New(o.Out, mode)
	return nil
}

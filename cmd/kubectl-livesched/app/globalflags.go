// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"flag"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

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

// addVerbosityFlag adds kubectl's -v.
func (o *options) addVerbosityFlag(root *cobra.Command) {
	root.PersistentFlags().IntVarP(&o.verbosity, "v", "v", 0,
		"Log level. With 0, nothing is logged; 6 logs each request to the API server, and 8 also their contents.")
}

// startLogging logs to standard error if the user asks for it with -v.
func (o *options) startLogging() error {
	if o.verbosity <= 0 {
		return nil
	}
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	if err := flags.Set("v", strconv.Itoa(o.verbosity)); err != nil {
		return err
	}
	klog.ClearLogger()
	klog.SetOutput(o.ErrOut)
	return flags.Set("logtostderr", "false") // to the output above
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/print"
)

// addOutputFlag adds -o. With JSON come kubectl's templates.
func addOutputFlag(command *cobra.Command, target *string, formats ...string) {
	command.Flags().StringVarP(target, "output", "o", "",
		"Output format: "+strings.Join(formats, ", ")+
			", or kubectl's jsonpath=..., jsonpath-as-json=... or go-template=.... Default: text.")
	command.PreRunE = func(*cobra.Command, []string) error {
		if *target == "" || slices.Contains(formats, *target) {
			return nil
		}
		switch printer, err := print.TemplatePrinter(*target); {
		case err != nil:
			return fmt.Errorf("--output: %w", err)
		case printer == nil:
			return fmt.Errorf(
				"--output: must be %s, jsonpath=TEMPLATE, jsonpath-as-json=TEMPLATE or go-template=TEMPLATE, not %q",
				strings.Join(formats, ", "), *target)
		}
		return nil
	}
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(
		append(slices.Clone(formats), "jsonpath=", "jsonpath-as-json=", "go-template="),
		cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
}

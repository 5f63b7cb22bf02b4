// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/crdschema"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/print"
	"github.com/livesched/livesched/internal/history"
)

func newSchema(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "schema [SchedulerProfile|SchedulingPolicy]",
		Short: "Print the JSON schema of profiles and policies, for editors",
		Long: "Print the JSON schema of profiles, of policies, or of both. Editors complete and check files with it. " +
			"It is the schema of the custom resource " +
			"definitions of this version, without their rules; `validate` also checks these.",
		Example: "  kubectl livesched schema > livesched.schema.json\n\n" +
			"  # For editors with the YAML language server: the first line of a file next to it\n" +
			"  # yaml-language-server: $schema=livesched.schema.json",
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: cobra.FixedCompletions([]string{history.KindProfile, history.KindPolicy},
			cobra.ShellCompDirectiveNoFileComp),
		RunE: func(_ *cobra.Command, args []string) error {
			kind := strings.Join(args, "")
			if named := kindNamed(kind); named != "" {
				kind = named
			}
			schema, err := crdschema.JSONSchema(kind)
			if err != nil {
				return err
			}
			return print.As(o.Out, print.JSON, schema)
		},
	}
}

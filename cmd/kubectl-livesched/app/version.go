// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"

	"github.com/spf13/cobra"
	kubeversion "k8s.io/component-base/version"

	"github.com/livesched/livesched/internal/version"
)

func newVersion(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, and the version of Kubernetes whose plugins livesched runs",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(o.Out, "kubectl-livesched %s, for Kubernetes %s\n", version.Version,
				kubeversion.Get().GitVersion)
			return err
		},
	}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/discovery"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/doctor"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/print"
)

type doctorOptions struct {
	*options
	livesched                    remoteOptions
	serviceAccount, user, output string
}

func newDoctor(shared *options) *cobra.Command {
	o := &doctorOptions{options: shared}
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Find what is wrong with the installation",
		Long: "Check the custom resource definitions, the version of the API server, the permissions of livesched, " +
			"its replicas and their leader, " +
			"whether the leader answers on its secure port, the webhook, other schedulers of the same pods, and " +
			"profiles and policies that are not active.\n\n" +
			"Each check ends with ok, warning, failed, or unknown if it could not be made, mostly because you may " +
			"not read what it needs. The command " +
			"changes nothing.\n\n" +
			"Exit codes: 0 if all checks were made and none has failed; 1 if one has failed; 2 if none has failed, " +
			"but some could not be made.",
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return o.run(command.Context()) },
	}
	o.livesched.addFlags(command)
	command.Flags().StringVar(&o.serviceAccount, "service-account", "livesched", "Name of livesched's ServiceAccount.")
	command.Flags().StringVar(&o.user, "livesched-user", "", "User that livesched authenticates as, if that is not a "+
		"ServiceAccount: system:kube-scheduler with config/kubeadm.")
	addOutputFlag(command, &o.output, print.JSON, print.YAML)
	return command
}

func (o *doctorOptions) run(ctx context.Context) error {
	c, err := o.client()
	if err != nil {
		return err
	}
	restConfig, err := o.flags.ToRESTConfig()
	if err != nil {
		return err
	}
	server, err := discovery.NewDiscoveryClientForConfig(restConfig)
	if err != nil {
		return err
	}
	livesched, err := o.remote(&o.livesched, doctorTimeout)
	if err != nil {
		return err
	}
	findings := doctor.Examine(ctx, doctor.Installation{
		Client: c, Server: server.ServerVersion, Now: time.Now(),
		Namespace: o.liveschedNamespace, Lease: o.livesched.lease, ServiceAccount: o.serviceAccount, User: o.user,
		Livesched: livesched,
	})
	if o.output != "" {
		if err := print.As(o.Out, o.output, findings); err != nil {
			return err
		}
	} else {
		print.Diagnosis(o.Out, findings)
	}
	if slices.ContainsFunc(findings, func(f doctor.Finding) bool { return f.State == doctor.Failed }) {
		return errFound
	}
	if unmade, all := doctor.Unmade(findings); len(unmade) > 0 {
		return fmt.Errorf("%d of %d checks could not be made: %s", len(unmade), all, strings.Join(unmade, ", "))
	}
	return nil
}

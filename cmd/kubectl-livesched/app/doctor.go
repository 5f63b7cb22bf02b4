// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/discovery"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/doctor"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
)

type doctorOptions struct {
	*options
	leaseName, serviceAccount, user, output string
}

func newDoctor(shared *options) *cobra.Command {
	o := &doctorOptions{options: shared}
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Find what is wrong with the installation",
		Long: "Check the custom resource definitions, the version of the API server, the permissions of livesched, its replicas and their leader, " +
			"the webhook, other schedulers of the same pods, and profiles and policies that are not active.\n\n" +
			"Each check ends with ok, warning, failed, or unknown if you may not read what it needs. The exit code is 1 if one has failed. " +
			"The command changes nothing.",
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return o.run(command.Context()) },
	}
	command.Flags().StringVar(&o.leaseName, "lease", "livesched", "Name of livesched's Lease: the value of its flag --leader-election-name.")
	command.Flags().StringVar(&o.serviceAccount, "service-account", "livesched", "Name of livesched's ServiceAccount.")
	command.Flags().StringVar(&o.user, "livesched-user", "", "User that livesched authenticates as, if that is not a ServiceAccount: system:kube-scheduler with config/kubeadm.")
	addOutputFlag(command, &o.output, formatJSON, formatYAML)
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
	findings := doctor.Examine(ctx, doctor.Installation{
		Client: c, Server: server.ServerVersion, Now: time.Now(),
		Namespace: o.liveschedNamespace, Lease: o.leaseName, ServiceAccount: o.serviceAccount, User: o.user,
	})
	if err := o.print(findings); err != nil {
		return err
	}
	for _, finding := range findings {
		if finding.State == doctor.Failed {
			return errFound
		}
	}
	return nil
}

func (o *doctorOptions) print(findings []doctor.Finding) error {
	if o.output != "" {
		return writeAs(o.Out, o.output, findings)
	}
	t := terminal.Of(o.Out)
	styles := map[doctor.State]func(string) string{doctor.Failed: t.Bad, doctor.Warning: t.Warn, doctor.Unknown: t.Warn, doctor.OK: t.Good}
	for _, finding := range findings {
		state := styles[finding.State](fmt.Sprintf("%-8s", finding.State))
		t.Entry(fmt.Sprintf("%s %-17s ", state, finding.Check), strings.Repeat(" ", 27), finding.Message)
		if finding.Advice != "" {
			t.Entry(strings.Repeat(" ", 27)+"-> ", strings.Repeat(" ", 30), finding.Advice)
		}
	}
	return nil
}

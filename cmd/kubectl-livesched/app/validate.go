// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/manifests"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/validate"
	"github.com/livesched/livesched/internal/scheduler/config"
)

type validateOptions struct {
	*options
	files          []string
	recursive      bool
	againstCluster bool
	plugins        []string
	hosts          []string
	output         string
}

func newValidate(shared *options) *cobra.Command {
	o := &validateOptions{options: shared}
	command := &cobra.Command{
		Use:   "validate -f FILE",
		Short: "Check files without applying them",
		Long: "Check the SchedulerProfiles and SchedulingPolicies in files with the schema and rules of the API server and with the code by which " +
			"livesched accepts objects. All objects are checked together, as if they were applied in their order.\n\n" +
			"The command does not need a cluster. With --against-cluster, it takes the other objects of the cluster into account: policies that profiles " +
			"build on, scheduler names in use, immutable fields, and profiles that livesched would no longer accept.\n\n" +
			"The command does not build plugins: the condition Programmed reports whether a plugin rejects its arguments.",
		Example: "  # One file, and all files of a directory\n  kubectl livesched validate -f binpack.yaml -f profiles/\n\n" +
			"  # In a pipeline\n  kustomize build overlays/prod | kubectl livesched validate -f - -o json",
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return o.run(command.Context()) },
	}
	addFilesFlags(command, &o.files, &o.recursive, "SchedulerProfiles and SchedulingPolicies")
	command.Flags().BoolVar(&o.againstCluster, "against-cluster", false, "Take the objects of the cluster into account.")
	addPluginsFlag(command, &o.plugins)
	addAllowedHostsFlag(command, &o.hosts)
	addOutputFlag(command, &o.output, formatJSON, formatYAML)
	return command
}

func addAllowedHostsFlag(command *cobra.Command, target *[]string) {
	command.Flags().StringSliceVar(target, strings.TrimPrefix(config.FlagAllowedHosts, "--"), config.DefaultAllowedHosts(),
		"Hosts that extenders may be at: the value of livesched's flag of this name.")
}

func parseAllowedHosts(hosts []string) (config.AllowedHosts, error) {
	allowed, err := config.ParseAllowedHosts(hosts)
	if err != nil {
		return allowed, fmt.Errorf("%s: %w", config.FlagAllowedHosts, err)
	}
	return allowed, nil
}

func (o *validateOptions) run(ctx context.Context) error {
	names, err := registered(o.plugins)
	if err != nil {
		return err
	}
	allowed, err := parseAllowedHosts(o.hosts)
	if err != nil {
		return err
	}
	documents, err := manifests.Read(o.files, o.recursive, o.In)
	if err != nil {
		return err
	}
	var cluster *validate.Cluster
	if o.againstCluster {
		if cluster, err = o.readCluster(ctx, documents); err != nil {
			return err
		}
	}
	report := validate.Check(documents, validate.Options{Registered: names, AllowedHosts: allowed, Cluster: cluster})
	if err := o.print(report); err != nil {
		return err
	}
	if o.output == "" && report.Has(v1alpha1.ReasonUnknownPlugin) {
		_, _ = fmt.Fprintf(o.ErrOut, "The plugins of livesched: %s. If yours has more, name them with --plugins.\n", strings.Join(config.PluginNames(names), ", "))
	}
	switch {
	case len(report.Objects) == 0:
		return errors.New("no SchedulerProfile or SchedulingPolicy found")
	case report.Count(validate.Error) > 0:
		return errFound
	}
	return nil
}

func (o *validateOptions) print(report *validate.Report) error {
	if o.output != "" {
		return writeAs(o.Out, o.output, report)
	}
	for i := range report.Objects {
		printObject(o.options, &report.Objects[i])
	}
	for _, skipped := range report.Skipped {
		_, _ = fmt.Fprintln(o.ErrOut, skipped)
	}
	_, err := fmt.Fprintf(o.Out, "%s: %s, %s\n", plural(len(report.Objects), "object"),
		plural(report.Count(validate.Error), "error"), plural(report.Count(validate.Warning), "warning"))
	return err
}

// printObject prints one line for the object and one for each finding.
func printObject(o *options, object *validate.Object) {
	state := "valid"
	for _, finding := range object.Findings {
		if finding.Severity == validate.Error {
			state = "INVALID"
			break
		}
	}
	_, _ = fmt.Fprintf(o.Out, "%s: %s %s: %s\n", object.Place(), object.Kind, object.Name, state)
	for _, finding := range object.Findings {
		place := ""
		if finding.Line > 0 {
			place = fmt.Sprintf("line %d: ", finding.Line)
		}
		reason := ""
		if finding.Reason != "" {
			reason = " (" + finding.Reason + ")"
		}
		_, _ = fmt.Fprintf(o.Out, "  %s: %s%s: %s%s\n", finding.Severity, place, finding.Path, finding.Detail, reason)
	}
}

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
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/print"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/validate"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

type validateOptions struct {
	*options
	fileOptions
	kustomize      string
	againstCluster bool
	plugins        []string
	hosts          []string
	output         string
}

func newValidate(shared *options) *cobra.Command {
	o := &validateOptions{options: shared}
	command := &cobra.Command{
		Use:   "validate (-f FILE | -k DIRECTORY)",
		Short: "Check files without applying them",
		Long: "Check the SchedulerProfiles and SchedulingPolicies in files with the schema and rules of the API " +
			"server and with the code by which " +
			"livesched accepts objects. All objects are checked together, as if they were applied in their order.\n\n" +
			"The command does not need a cluster. With --against-cluster, it takes the other objects of the cluster " +
			"into account: policies that profiles " +
			"build on, scheduler names in use, immutable fields, and profiles that livesched would no longer " +
			"accept.\n\n" +
			"The command does not build plugins: the condition Programmed reports whether a plugin rejects its " +
			"arguments.\n\n" +
			"Each error is a line FILE:LINE: error: TEXT, which editors and CI systems understand. -o github prints " +
			"workflow commands of GitHub Actions, " +
			"which annotate the files. With -k, line numbers refer to the output of `kubectl kustomize`.\n\n" +
			"Exit codes: 0 if there are no errors, 1 if there are, 2 if the command fails.",
		Example: "  # One file, and all files of a directory\n  kubectl livesched validate -f binpack.yaml -f " +
			"profiles/\n\n" +
			"  # A kustomization, and a URL\n  kubectl livesched validate -k overlays/prod\n  kubectl livesched " +
			"validate -f https://example.com/binpack.yaml\n\n" +
			"  # In GitHub Actions\n  kubectl livesched validate -R -f profiles/ -o github",
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return o.run(command.Context()) },
	}
	o.addFileFlags(command, "SchedulerProfiles and SchedulingPolicies")
	command.Flags().StringVarP(&o.kustomize, "kustomize", "k", "",
		"Directory with a kustomization, which is built as by kubectl. It excludes -f.")
	_ = command.MarkFlagDirname("kustomize") // fails only if the flag does not exist
	command.MarkFlagsOneRequired("filename", "kustomize")
	command.MarkFlagsMutuallyExclusive("filename", "kustomize")
	command.Flags().BoolVar(&o.againstCluster, "against-cluster", false,
		"Take the objects of the cluster into account.")
	addPluginsFlag(command, &o.plugins)
	addAllowedHostsFlag(command, &o.hosts)
	addOutputFlag(command, &o.output, print.GitHub, print.JSON, print.YAML)
	return command
}

func addAllowedHostsFlag(command *cobra.Command, target *[]string) {
	command.Flags().StringSliceVar(target, strings.TrimPrefix(resolve.FlagAllowedHosts, "--"),
		resolve.DefaultAllowedHosts(),
		"Hosts that extenders may be at: the value of livesched's flag of this name.")
}

func parseAllowedHosts(hosts []string) (resolve.AllowedHosts, error) {
	allowed, err := resolve.ParseAllowedHosts(hosts)
	if err != nil {
		return allowed, fmt.Errorf("%s: %w", resolve.FlagAllowedHosts, err)
	}
	return allowed, nil
}

func (o *validateOptions) run(ctx context.Context) error {
	names := resolve.BuiltIn().Insert(o.plugins...)
	allowed, err := parseAllowedHosts(o.hosts)
	if err != nil {
		return err
	}
	documents, err := o.read()
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
	if !print.IsData(o.output) && report.Has(v1alpha1.ReasonUnknownPlugin) {
		_, _ = fmt.Fprintf(o.ErrOut, "The plugins of livesched: %s. If yours has more, name them with --plugins.\n",
			strings.Join(resolve.PluginNames(names), ", "))
	}
	switch {
	case len(report.Objects) == 0:
		return errors.New("no SchedulerProfile or SchedulingPolicy found")
	case report.Count(validate.Error) > 0:
		return errFound
	}
	return nil
}

// read reads the files, or builds the kustomization.
func (o *validateOptions) read() ([]manifests.Document, error) {
	if o.kustomize != "" {
		return manifests.Kustomize(o.kustomize)
	}
	return o.readFiles(o.In)
}

func (o *validateOptions) print(report *validate.Report) error {
	if print.IsData(o.output) && o.output != print.GitHub {
		return print.As(o.Out, o.output, report)
	}
	return print.Report(o.Out, o.ErrOut, report, o.output)
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/convert"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/manifests"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/validate"
	"github.com/livesched/livesched/internal/scheduler/resolve"
	"github.com/livesched/livesched/internal/words"
)

type convertOptions struct {
	*options
	fileOptions
	strict bool
	// againstCluster checks the output with the objects of the cluster.
	againstCluster bool
	plugins        []string
	hosts          []string
	input          convert.Options
}

func newConvert(shared *options) *cobra.Command {
	o := &convertOptions{options: shared}
	command := &cobra.Command{
		Use:   "convert -f FILE",
		Short: "Convert the configuration of kube-scheduler to profiles and policies",
		Long: "Convert KubeSchedulerConfigurations (v1, v1beta3, v1beta2, v1beta1), legacy policies (kind Policy, " +
			"apiVersion v1) and ConfigMaps that hold " +
			"either of them to SchedulerProfiles and SchedulingPolicies. The objects go to standard output.\n\n" +
			"Remarks go to standard error, one for each field that has no counterpart or another meaning. A loss " +
			"changes how the scheduler works until " +
			"you act on it. A note needs no action. Losses are not errors unless you set --strict. Finally the " +
			"command checks the objects as `validate` " +
			"does.",
		Example: "  kubectl livesched convert -f kube-scheduler.yaml > livesched.yaml\n\n" +
			"  # The ConfigMap of a second scheduler\n  kubectl get configmap -n kube-system my-scheduler -o yaml | " +
			"kubectl livesched convert -f - | kubectl apply -f -",
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return o.run(command.Context()) },
	}
	o.addFileFlags(command, "configurations of kube-scheduler")
	_ = command.MarkFlagRequired("filename") // fails only if the flag does not exist
	command.Flags().BoolVar(&o.strict, "strict", false, "Exit with 1 if there are losses.")
	command.Flags().BoolVar(&o.againstCluster, "against-cluster", false,
		"Check the output with the objects of the cluster, and name the profiles that it would change.")
	command.Flags().StringVar(&o.input.PolicyName, "policy-name", "", "Name of the SchedulingPolicy with the "+
		"settings that profiles share. Default: the name of the profile or, if there are several, of the ConfigMap "+
		"or file.")
	command.Flags().StringVar(&o.input.SchedulerName, "scheduler-name", convert.DefaultSchedulerName,
		"Scheduler name for the profile of a legacy policy, which does not contain one.")
	o.addFormerNamespaceFlag(command)
	addPluginsFlag(command, &o.plugins)
	addAllowedHostsFlag(command, &o.hosts)
	return command
}

func (o *convertOptions) run(ctx context.Context) error {
	o.input.Namespace = o.liveschedNamespace
	var err error
	o.input.Registered = resolve.BuiltIn().Insert(o.plugins...)
	if o.input.AllowedHosts, err = parseAllowedHosts(o.hosts); err != nil {
		return err
	}
	documents, err := o.readFiles(o.In)
	if err != nil {
		return err
	}
	result, err := convert.Convert(documents, o.input)
	if err != nil {
		return err
	}
	text, err := result.YAML()
	if err != nil {
		return err
	}
	if _, err := o.Out.Write(text); err != nil {
		return err
	}
	for _, remark := range result.Remarks {
		_, _ = fmt.Fprintln(o.ErrOut, remark)
	}
	refused, err := o.check(ctx, text)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(o.ErrOut, "%s, %s: %s, %s\n", words.Many(len(result.Profiles), "profile"),
		words.Many(len(result.Policies), "policy"),
		words.Many(result.Losses(), "loss"), words.Many(len(result.Remarks)-result.Losses(), "note"))
	if refused || o.strict && result.Losses() > 0 {
		return errFound
	}
	return nil
}

// check reports the objects that livesched would not accept (an error in the configuration, or a
// setting that livesched does not have) and warnings, such as warnings about profiles that are not
// in the output and change with it.
func (o *convertOptions) check(ctx context.Context, text []byte) (refused bool, err error) {
	documents, err := manifests.Parse("output", text)
	if err != nil {
		return false, errors.Join(errors.New("the output cannot be parsed"), err)
	}
	var cluster *validate.Cluster
	if o.againstCluster {
		if cluster, err = o.readCluster(ctx, documents); err != nil {
			return false, err
		}
	}
	report := validate.Check(documents,
		validate.Options{Registered: o.input.Registered, AllowedHosts: o.input.AllowedHosts, Cluster: cluster})
	for i := range report.Objects {
		object := &report.Objects[i]
		for _, finding := range object.Findings {
			refused = refused || finding.Severity == validate.Error
			_, _ = fmt.Fprintf(o.ErrOut, "output: %s: %s %s: %s: %s\n", finding.Severity, object.Kind, object.Name,
				finding.Path, finding.Detail)
		}
	}
	return refused, nil
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/convert"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/manifests"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/validate"
)

type convertOptions struct {
	*options
	files     []string
	recursive bool
	strict    bool
	plugins   []string
	input     convert.Options
}

func newConvert(shared *options) *cobra.Command {
	o := &convertOptions{options: shared}
	command := &cobra.Command{
		Use:   "convert -f FILE",
		Short: "Make profiles and policies of the configuration of kube-scheduler",
		Long: "Make SchedulerProfiles and SchedulingPolicies of KubeSchedulerConfigurations (v1, v1beta3, v1beta2, v1beta1), of legacy policies " +
			"(kind Policy, apiVersion v1), and of the ConfigMaps that hold either of them. The objects are written to standard output.\n\n" +
			"What they do not say is reported line by line on standard error: a loss works in another way until something is done about it, a note " +
			"was taken care of. Losses are no error, except with --strict. Then the objects are checked as `validate` does.",
		Example: "  kubectl livesched convert -f kube-scheduler.yaml > livesched.yaml\n\n" +
			"  # The ConfigMap of a second scheduler\n  kubectl get configmap -n kube-system my-scheduler -o yaml | kubectl livesched convert -f - | kubectl apply -f -",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return o.run() },
	}
	addFilesFlags(command, &o.files, &o.recursive, "configurations of kube-scheduler")
	command.Flags().BoolVar(&o.strict, "strict", false, "Exit with 1 where something is lost.")
	command.Flags().StringVar(&o.input.PolicyName, "policy-name", convert.DefaultPolicyName, "Name of the SchedulingPolicy that takes up what profiles share.")
	command.Flags().StringVar(&o.input.SchedulerName, "scheduler-name", convert.DefaultSchedulerName, "Scheduler name of a legacy policy, which does not have it.")
	command.Flags().StringVarP(&o.input.Namespace, "namespace", "n", convert.DefaultNamespace, "Namespace that livesched runs in, for the Secrets of extenders.")
	addPluginsFlag(command, &o.plugins)
	return command
}

func (o *convertOptions) run() error {
	var err error
	if o.input.Registered, err = registered(o.plugins); err != nil {
		return err
	}
	documents, err := manifests.Read(o.files, o.recursive, o.In)
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
	refused, err := o.check(text)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(o.ErrOut, "%s, %s: %s, %s\n", plural(len(result.Profiles), "profile"), plural(len(result.Policies), "policy"),
		plural(result.Losses(), "loss"), plural(len(result.Remarks)-result.Losses(), "note"))
	if refused || o.strict && result.Losses() > 0 {
		return errFound
	}
	return nil
}

// check says what livesched would not accept of the objects: the configuration was wrong there, or
// asks for what livesched has not.
func (o *convertOptions) check(text []byte) (refused bool, err error) {
	documents, err := manifests.Parse("output", text)
	if err != nil {
		return false, errors.Join(errors.New("what was written cannot be read"), err)
	}
	report := validate.Check(documents, validate.Options{Registered: o.input.Registered})
	for i := range report.Objects {
		object := &report.Objects[i]
		for _, finding := range object.Findings {
			if finding.Severity == validate.Error {
				refused = true
				_, _ = fmt.Fprintf(o.ErrOut, "output: error: %s %s: %s: %s\n", object.Kind, object.Name, finding.Path, finding.Detail)
			}
		}
	}
	return refused, nil
}

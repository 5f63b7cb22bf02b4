// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/crdschema"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/manifests"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/print"
)

type simulateOptions struct {
	*options
	livesched remoteOptions
	fileOptions
	nodes     nodeChanges
	pods      string
	namespace string
	selector  string
	seed      int64
	failOn    []string
	output    string
	// schedulerName replaces the scheduler name of the pods.
	schedulerName string
}

func newSimulate(shared *options) *cobra.Command {
	o := &simulateOptions{options: shared}
	command := &cobra.Command{
		Use:   "simulate [-f FILE] [TYPE/NAME]",
		Short: "Show what a change of profiles, policies or nodes would do",
		Long: "Show what a change of profiles, policies or nodes would do. A running livesched lifts pods off their " +
			"nodes in a copy of its state, and " +
			"decides them again: once as it is configured, and once with the objects in the files. Nothing in the " +
			"cluster changes.\n\n" +
			"With TYPE/NAME, only the pods of that object are decided, such as the pods of a Deployment or a Job. " +
			"With --scheduler-name, pods are decided as if " +
			"they had that scheduler name, also pods of other schedulers.\n\n" +
			"What differs between the columns ACTUAL and CURRENT SPEC is not an effect of the files: the cluster has " +
			"changed since the pods were scheduled, " +
			"and nodes of equal score are drawn.\n\n" + print.SimulationLimits + "\n\n" +
			"The command requires the permissions of the Role livesched-client in livesched's namespace, and the " +
			"permission to create " +
			"simulations.livesched.io: in the namespace of -n, or in the whole cluster. To add or remove nodes, you " +
			"must be permitted to list nodes. To name an object, you must be permitted to get it, and to list pods " +
			"if it has no label selector.",
		Example: "  # What would this profile do to the 2,000 pods that were scheduled last?\n  kubectl livesched " +
			"simulate -f binpack.yaml\n\n" +
			"  # Do the pods of a pool fit elsewhere? Exit with 1 if not.\n" +
			"  kubectl livesched simulate --remove-nodes karpenter.sh/nodepool=old --pods all --fail-on " +
			"'unplaced>0'\n\n" +
			"  # Would the pods of this Deployment find nodes with another profile?\n  kubectl livesched simulate " +
			"deployment/web --scheduler-name binpack",
		Args: cobra.MaximumNArgs(2),
		RunE: func(command *cobra.Command, args []string) error {
			if len(args) > 0 && !command.Flags().Changed("pods") {
				o.pods = "all"
			}
			return o.run(command.Context(), args)
		},
	}
	o.addFileFlags(command, "SchedulerProfiles and SchedulingPolicies")
	o.nodes.addFlags(command)
	flags := command.Flags()
	flags.StringVar(&o.pods, "pods", "last=2000", "Pods that are decided again: last=N (the bound pods that were "+
		"scheduled last), pending, or all. At most 5000. With TYPE/NAME, the default is all.")
	flags.StringVarP(&o.namespace, "namespace", "n", "", "Only pods of this namespace. Default: all namespaces.")
	flags.StringVarP(&o.selector, "selector", "l", "", "Only pods with these labels.")
	flags.StringVar(&o.schedulerName, "scheduler-name", "",
		"Decide the pods as if they had this scheduler name. Default: the scheduler name of each pod.")
	flags.Int64Var(&o.seed, "seed", 1,
		"Seed of the draws among nodes of equal score. The same seed in the same state gives the same result.")
	flags.StringArrayVar(&o.failOn, "fail-on", nil,
		"Exit with 1 if this holds for the last column, such as unplaced>0, victims>0, moved>=100, cpu.mean<50 or "+
			"nodesUsed>current. The flag can be repeated.")
	o.livesched.addFlags(command)
	addOutputFlag(command, &o.output, print.JSON, print.YAML, print.Wide)
	return command
}

func (o *simulateOptions) run(ctx context.Context, args []string) error {
	simulation := newSimulation(o.namespace)
	conditions, err := parseConditions(o.failOn)
	if err != nil {
		return err
	}
	if simulation.Spec, err = o.spec(); err != nil {
		return err
	}
	if len(args) > 0 {
		if err := o.selectPodsOf(ctx, args, simulation); err != nil {
			return err
		}
	}
	text, err := o.create(ctx, &o.livesched, "simulations", o.namespace, simulation)
	if err != nil {
		return err
	}
	if err := o.print(text, simulation); err != nil {
		return err
	}
	return o.fail(conditions, &simulation.Status)
}

func newSimulation(namespace string) *v1alpha1.Simulation {
	return &v1alpha1.Simulation{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Simulation"},
		Metadata: metav1.ObjectMeta{Namespace: namespace},
	}
}

// print prints an answer, or its data, in the format that the user chose.
func (o *simulateOptions) print(data any, simulation *v1alpha1.Simulation) error {
	if print.IsData(o.output) {
		return print.As(o.Out, o.output, data)
	}
	return print.Simulation(o.Out, simulation, o.output == print.Wide)
}

// spec returns what the flags and files ask for.
func (o *simulateOptions) spec() (v1alpha1.SimulationSpec, error) {
	spec := v1alpha1.SimulationSpec{Seed: o.seed, SchedulerName: o.schedulerName}
	var err error
	if spec.Nodes, err = o.nodes.parse(); err != nil {
		return spec, err
	}
	if len(o.files) == 0 && len(o.nodes.add) == 0 && len(o.nodes.remove) == 0 && o.schedulerName == "" {
		return spec,
			errors.New("there is nothing to simulate: use --filename, --add-nodes, --remove-nodes or --scheduler-name")
	}
	if spec.Pods, err = parseSelection(o.pods); err != nil {
		return spec, err
	}
	if _, err := labels.Parse(o.selector); err != nil {
		return spec, fmt.Errorf("--selector: %w", err)
	}
	spec.Pods.LabelSelector = o.selector
	documents, err := o.readFiles(o.In)
	if err != nil {
		return spec, err
	}
	for i := range documents {
		if err := addObject(&spec, &documents[i]); err != nil {
			return spec, err
		}
	}
	if len(o.files) > 0 && len(spec.Profiles)+len(spec.Policies) == 0 {
		return spec, errors.New("no SchedulerProfile or SchedulingPolicy found")
	}
	return spec, nil
}

// parseSelection reads --pods.
func parseSelection(text string) (v1alpha1.PodSelection, error) {
	switch kind, count, limited := strings.Cut(text, "="); {
	case text == "pending":
		return v1alpha1.PodSelection{Type: v1alpha1.PodsPending, Limit: maxDecided}, nil
	case text == "all":
		return v1alpha1.PodSelection{Type: v1alpha1.PodsAll, Limit: maxDecided}, nil
	case kind == "last" && limited:
		if limit, err := strconv.ParseInt(count, 10, 32); err == nil && limit > 0 && limit <= maxDecided {
			return v1alpha1.PodSelection{Type: v1alpha1.PodsLast, Limit: int32(limit)}, nil
		}
	}
	return v1alpha1.PodSelection{},
		fmt.Errorf("--pods: must be last=N with N from 1 to 5000, pending or all, not %q", text)
}

// addObject adds the object of a document as the API server would complete it.
func addObject(spec *v1alpha1.SimulationSpec, d *manifests.Document) error {
	version, kind := d.Text("apiVersion"), d.Text("kind")
	schema := crdschema.Of(version, kind)
	if schema == nil {
		return fmt.Errorf("%s: a simulation takes SchedulerProfiles and SchedulingPolicies of %s, not %s of %s",
			d.Place(), v1alpha1.GroupVersion, kind, version)
	}
	completed, problems := schema.Check(d.Object, nil)
	var errs []error
	for _, problem := range problems {
		errs = append(errs, fmt.Errorf("%s: %s %s: %w", d.Place(), kind, d.Text("metadata", "name"), problem))
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	delete(completed, "status")
	text, err := json.Marshal(completed)
	if err != nil {
		return err
	}
	if kind == "SchedulerProfile" {
		spec.Profiles = append(spec.Profiles, v1alpha1.SchedulerProfile{})
		return json.Unmarshal(text, &spec.Profiles[len(spec.Profiles)-1])
	}
	spec.Policies = append(spec.Policies, v1alpha1.SchedulingPolicy{})
	return json.Unmarshal(text, &spec.Policies[len(spec.Policies)-1])
}

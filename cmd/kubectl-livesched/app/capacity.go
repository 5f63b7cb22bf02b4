// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/print"
)

type capacityOptions struct {
	*options
	livesched remoteOptions
	fileOptions
	nodes     nodeChanges
	namespace string
	limit     int32
	seed      int64
	// template names one of several pod templates, and schedulerName replaces the name in the pod.
	template, schedulerName string
	output                  string
}

func newCapacity(shared *options) *cobra.Command {
	o := &capacityOptions{options: shared}
	command := &cobra.Command{
		Use:   "capacity (-f FILE | TYPE/NAME)",
		Short: "Count how many more pods of a kind fit",
		Long: "Count how many more pods of a kind fit, and say what stops the next one. A running livesched decides " +
			"one pod after the other in a copy " +
			"of its state. The pod is in a file or in the cluster: a Pod, or an object with pod templates at any " +
			"depth, such as a Deployment, a CronJob or " +
			"a JobSet. If the pod names a PodGroup, in the files or in the cluster, the command counts whole " +
			"groups. Each pod gets claims for devices of its own from the ResourceClaimTemplates that it refers to, " +
			"in the files or in the cluster.\n\n" + print.CapacityLimits + "\n\n" +
			"The command requires the permissions of the Role livesched-client in livesched's namespace, and the " +
			"permission to create " +
			"capacities.livesched.io in the namespace of the pod. To name an object of the cluster, you must be " +
			"permitted to get it, and the ResourceClaimTemplates that are not in the files. To add or remove nodes, " +
			"you must be permitted to list nodes.",
		Example: "  kubectl livesched capacity -f train.yaml\n\n  # And with four more nodes?\n  kubectl livesched " +
			"capacity -f train.yaml --add-nodes a100=4\n\n" +
			"  # How far can this Deployment grow? And with another profile?\n  kubectl livesched capacity " +
			"deployment/web\n" +
			"  kubectl livesched capacity deployment/web --scheduler-name binpack",
		Args: o.checkArgs,
		RunE: func(command *cobra.Command, args []string) error { return o.run(command.Context(), args) },
	}
	o.addFileFlags(command, "a Pod, or an object with pod templates")
	o.nodes.addFlags(command)
	command.Flags().StringVarP(&o.namespace, "namespace", "n", "",
		"Namespace of the pods. Default: the namespace in the file, or of your context.")
	command.Flags().StringVar(&o.template, "template", "", "Pod template to count if there are several, such as "+
		"worker, or deployment/web of a file with several objects.")
	command.Flags().StringVar(&o.schedulerName, "scheduler-name", "",
		"Scheduler name of the counted pods. Default: the scheduler name of the pod.")
	command.Flags().Int32Var(&o.limit, "limit", 5000, "Count up to this number of pods, at most 5000.")
	command.Flags().Int64Var(&o.seed, "seed", 1, "Seed of the draws among nodes of equal score.")
	// fails only if the flag does not exist
	_ = command.RegisterFlagCompletionFunc("template", function(o.templateNames))
	o.livesched.addFlags(command)
	addOutputFlag(command, &o.output, print.JSON, print.YAML, print.Wide)
	return command
}

func (o *capacityOptions) run(ctx context.Context, args []string) error {
	if o.limit < 1 || o.limit > maxDecided {
		return fmt.Errorf("--limit: must be from 1 to %d, not %d", maxDecided, o.limit)
	}
	documents, live, err := o.documents(args)
	if err != nil {
		return err
	}
	pod, err := o.countedPod(documents, live)
	if err != nil {
		return err
	}
	capacity := &v1alpha1.Capacity{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Capacity"},
		Spec:     v1alpha1.CapacitySpec{Pod: *pod, Limit: o.limit, Seed: o.seed},
	}
	var oneByOne bool
	if capacity.Spec.PodGroup, oneByOne, err = groupOfPod(documents, pod); err != nil {
		return err
	}
	if oneByOne { // also if the cluster's group of this name has another policy
		capacity.Spec.Pod.Spec.SchedulingGroup = nil
	}
	if capacity.Spec.Nodes, err = o.nodes.parse(); err != nil {
		return err
	}
	namespace, err := o.namespaceOr(cmp.Or(o.namespace, pod.Namespace))
	if err != nil {
		return err
	}
	if capacity.Spec.ResourceClaimTemplates, err = o.claimTemplates(ctx, documents, pod, namespace); err != nil {
		return err
	}
	text, err := o.create(ctx, &o.livesched, "capacities", namespace, capacity)
	if err != nil {
		return err
	}
	if print.IsData(o.output) {
		return print.As(o.Out, o.output, text)
	}
	return print.Capacity(o.Out, capacity, o.output == print.Wide)
}

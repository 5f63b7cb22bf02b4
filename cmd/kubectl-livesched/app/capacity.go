// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/print"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

type capacityOptions struct {
	*options
	livesched remoteOptions
	files     []string
	recursive bool
	nodes     nodeChanges
	namespace string
	limit     int32
	seed      int64
	// template names one of several pod templates, and schedulerName replaces that of the pod.
	template, schedulerName string
	output                  string
}

func newCapacity(shared *options) *cobra.Command {
	o := &capacityOptions{options: shared}
	command := &cobra.Command{
		Use:   "capacity (-f FILE | TYPE/NAME)",
		Short: "Count how many more pods of a kind fit",
		Long: "Count how many more pods of a kind fit, and say what stops the next one. A running livesched decides one pod after the other in a copy " +
			"of its state. The pod is in a file or in the cluster: a Pod, or an object with pod templates at any depth, such as a Deployment, a CronJob or " +
			"a JobSet. If the pod names a PodGroup, in the files or in the cluster, the command counts whole groups.\n\n" + capacityLimits + "\n\n" +
			"The command requires the permissions of the Role livesched-client in livesched's namespace, and the permission to create " +
			"capacities.livesched.io in the namespace of the pod. To name an object of the cluster, you must be permitted to get it. To add or remove nodes, you must be permitted to list nodes.",
		Example: "  kubectl livesched capacity -f train.yaml\n\n  # And with four more nodes?\n  kubectl livesched capacity -f train.yaml --add-nodes a100=4\n\n" +
			"  # How far can this Deployment grow? And with another profile?\n  kubectl livesched capacity deployment/web\n" +
			"  kubectl livesched capacity deployment/web --scheduler-name binpack",
		Args: o.checkArgs,
		RunE: func(command *cobra.Command, args []string) error { return o.run(command.Context(), args) },
	}
	addOptionalFilesFlags(command, &o.files, &o.recursive, "a Pod, or an object with pod templates")
	o.nodes.addFlags(command)
	command.Flags().StringVarP(&o.namespace, "namespace", "n", "", "Namespace of the pods. Default: the namespace in the file, or of your context.")
	command.Flags().StringVar(&o.template, "template", "", "Pod template to count if there are several, such as worker, or deployment/web of a file with several objects.")
	command.Flags().StringVar(&o.schedulerName, "scheduler-name", "", "Scheduler name of the counted pods. Default: the scheduler name of the pod.")
	command.Flags().Int32Var(&o.limit, "limit", 5000, "Count up to this number of pods, at most 5000.")
	command.Flags().Int64Var(&o.seed, "seed", 1, "Seed of the draws among nodes of equal score.")
	_ = command.RegisterFlagCompletionFunc("template", function(o.templateNames)) // fails only if the flag does not exist
	o.livesched.addFlags(command)
	addOutputFlag(command, &o.output, formatJSON, formatYAML, formatWide)
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
	if oneByOne { // also if the cluster's group of this name says otherwise
		capacity.Spec.Pod.Spec.SchedulingGroup = nil
	}
	if capacity.Spec.Nodes, err = o.nodes.parse(); err != nil {
		return err
	}
	namespace, err := o.namespaceOr(cmp.Or(o.namespace, pod.Namespace))
	if err != nil {
		return err
	}
	text, err := o.create(ctx, &o.livesched, "capacities", namespace, capacity)
	if err != nil {
		return err
	}
	if isData(o.output) {
		return writeAnswer(o.Out, o.output, text)
	}
	return printCapacity(o.Out, capacity, o.output == formatWide)
}

// printCapacity prints the answer for people.
func printCapacity(w io.Writer, c *v1alpha1.Capacity, wide bool) error {
	s := &c.Status
	room := "Room for "
	if s.Limited {
		room = "Room for at least "
	}
	if size := groupSize(c); size > 0 {
		room += print.Many(s.PodGroups, "more group") + " of " + print.Many(size, "pod")
	} else {
		room += print.Many(s.Pods, "more pod")
	}
	writeLine(w, room+print.Grouped.Sprintf(", on %d of ", s.Nodes)+print.Many(s.ClusterNodes, "node")+fmt.Sprintf("; profile %s@%s.", s.Profile, s.Revision))
	if line := namedGroupLine(c); line != "" {
		writeLine(w, line)
	}
	if err := printPools(w, s.Pools, wide); err != nil {
		return err
	}
	if s.Next != nil {
		if err := printNext(w, s.Next, wide); err != nil {
			return err
		}
	}
	if s.ExtendersNotCalled {
		writeLine(w, "Extenders are not called.")
	}
	writeLine(w, capacityLimits)
	return nil
}

// groupSize returns the number of pods of each group that was counted, 0 if single pods were.
func groupSize(c *v1alpha1.Capacity) int32 {
	switch {
	case c.Spec.PodGroup != nil:
		return c.Spec.PodGroup.MinMember
	case c.Status.PodGroup != nil && c.Status.PodGroup.Use == v1alpha1.PodGroupTogether:
		return c.Status.PodGroup.MinMember
	}
	return 0
}

// namedGroupLine says what became of the PodGroup that the pod names, if it is not in the files.
func namedGroupLine(c *v1alpha1.Capacity) string {
	if c.Spec.PodGroup != nil {
		return ""
	}
	named := c.Status.PodGroup
	if named == nil {
		if key := podgroup.KeyOf(&c.Spec.Pod); key.Name != "" {
			return fmt.Sprintf("This livesched is older than the plugin, and has not looked for the PodGroup %s: single pods were counted, as if they were in no group.", key.Name)
		}
		return ""
	}
	switch named.Use {
	case v1alpha1.PodGroupTogether:
		return fmt.Sprintf("The size of a group comes from the PodGroup %s in the cluster.", named.Name)
	case v1alpha1.PodGroupOneByOne:
		return fmt.Sprintf("Single pods were counted: the PodGroup %s in the cluster has the policy to schedule them one by one.", named.Name)
	case v1alpha1.PodGroupLeftToPlugin:
		return fmt.Sprintf("Single pods were counted: a plugin of the profile places the pods of the PodGroup %s.", named.Name)
	case v1alpha1.PodGroupNotFound:
		return fmt.Sprintf("The PodGroup %s is neither in the cluster nor in a file: single pods were counted, as if they were in no group. "+
			"In the cluster, they would wait for the PodGroup.", named.Name)
	case v1alpha1.PodGroupNotServed:
		return fmt.Sprintf("The API server does not serve PodGroups of %s: single pods were counted. livesched ignores the name of the group, %s.",
			named.APIVersion, named.Name)
	}
	return fmt.Sprintf("PodGroup %s: %s.", named.Name, named.Use)
}

// maxPools limits the rows of the table of pools that is not wide.
const maxPools = 10

// printPools prints the pools with room, those with the most pods first.
func printPools(w io.Writer, pools []v1alpha1.PoolCapacity, wide bool) error {
	if len(pools) == 0 {
		return nil
	}
	shown := pools
	if !wide {
		shown = pools[:min(len(pools), maxPools)]
	}
	var rows [][]string
	for _, p := range shown {
		rows = append(rows, []string{p.Pool, print.Grouped.Sprintf("%d", p.Pods), print.Grouped.Sprintf("%d", p.Nodes)})
	}
	if err := writeTable(w, []string{"POOL", "PODS", "NODES"}, rows); err != nil {
		return err
	}
	pods := int32(0)
	for _, p := range pools[len(shown):] {
		pods += p.Pods
	}
	if more := len(pools) - len(shown); more > 0 {
		writeLine(w, "... and "+print.Many(pods, "pod")+" in "+print.Many(int32(more), "more pool")+": -o wide")
	}
	return nil
}

// printNext prints what keeps the next pod or group pending.
func printNext(w io.Writer, next *v1alpha1.NextPod, wide bool) error {
	if next.PodGroup != nil {
		line := "The next group does not fit."
		if next.Message != "" {
			line = "The next group does not fit: " + strings.TrimSuffix(next.Message, ".") + "."
		}
		writeLine(w, line)
		writeLine(w, print.PodGroupLine(next.PodGroup))
	} else {
		writeLine(w, fmt.Sprintf("The next one: %s. %s", next.Verdict, next.Message))
	}
	print.Suggestions(w, next.Suggestions)
	return print.NodeGroups(w, next.Groups, wide)
}

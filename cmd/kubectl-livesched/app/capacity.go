// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/manifests"
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
	output    string
}

func newCapacity(shared *options) *cobra.Command {
	o := &capacityOptions{options: shared}
	command := &cobra.Command{
		Use:   "capacity -f FILE",
		Short: "Count how many more pods of a kind fit",
		Long: "Count how many more pods of a kind fit, and say what stops the next one. A running livesched decides one pod after the other in a copy " +
			"of its state. The file has a Pod, or an object with a pod template such as a Deployment. If it also has the PodGroup that the pod names, " +
			"the command counts whole groups.\n\n" + capacityLimits + "\n\n" +
			"The command requires the permissions of the Role livesched-client in livesched's namespace, and the permission to create " +
			"capacities.livesched.io in the namespace of the pod. To add or remove nodes, you must be permitted to list nodes.",
		Example: "  kubectl livesched capacity -f train.yaml\n\n  # And with four more nodes?\n  kubectl livesched capacity -f train.yaml --add-nodes a100=4",
		Args:    cobra.NoArgs,
		RunE:    func(command *cobra.Command, _ []string) error { return o.run(command.Context()) },
	}
	addFilesFlags(command, &o.files, &o.recursive, "a Pod, or an object with a pod template")
	o.nodes.addFlags(command)
	command.Flags().StringVarP(&o.namespace, "namespace", "n", "", "Namespace of the pods. Default: that in the file, or that of your context.")
	command.Flags().Int32Var(&o.limit, "limit", 5000, "Count up to this number of pods, at most 5000.")
	command.Flags().Int64Var(&o.seed, "seed", 1, "Seed of the draws among nodes of equal score.")
	o.livesched.addFlags(command)
	addOutputFlag(command, &o.output, formatJSON, formatYAML)
	return command
}

func (o *capacityOptions) run(ctx context.Context) error {
	documents, err := manifests.Read(o.files, o.recursive, o.In)
	if err != nil {
		return err
	}
	pod, err := onePod(documents)
	if err != nil {
		return err
	}
	capacity := &v1alpha1.Capacity{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Capacity"},
		Spec:     v1alpha1.CapacitySpec{Pod: *pod, Limit: o.limit, Seed: o.seed},
	}
	if capacity.Spec.PodGroup, err = groupOfPod(documents, pod); err != nil {
		return err
	}
	if capacity.Spec.Nodes, err = o.nodes.parse(); err != nil {
		return err
	}
	namespace := o.namespace
	if namespace == "" {
		namespace = pod.Namespace
	}
	if namespace == "" {
		if namespace, _, err = o.flags.ToRawKubeConfigLoader().Namespace(); err != nil {
			return err
		}
	}
	text, err := o.create(ctx, &o.livesched, "capacities", namespace, capacity)
	if err != nil {
		return err
	}
	if o.output != "" {
		return writeAnswer(o.Out, o.output, text)
	}
	return printCapacity(o.Out, capacity)
}

// printCapacity prints the answer for people.
func printCapacity(w io.Writer, c *v1alpha1.Capacity) error {
	s := &c.Status
	room := "Room for "
	if s.Limited {
		room = "Room for at least "
	}
	if group := c.Spec.PodGroup; group != nil {
		room += many(s.PodGroups, "more group") + " of " + many(group.MinMember, "pod")
	} else {
		room += many(s.Pods, "more pod")
	}
	writeLine(w, room+grouped.Sprintf(", on %d of ", s.Nodes)+many(s.ClusterNodes, "node")+fmt.Sprintf("; profile %s@%s.", s.Profile, s.Revision))
	if len(s.Pools) > 0 {
		var rows [][]string
		for _, p := range s.Pools {
			rows = append(rows, []string{p.Pool, grouped.Sprintf("%d", p.Pods), grouped.Sprintf("%d", p.Nodes)})
		}
		if err := writeTable(w, []string{"POOL", "PODS", "NODES"}, rows); err != nil {
			return err
		}
	}
	if s.Next != nil {
		if err := printNext(w, s.Next); err != nil {
			return err
		}
	}
	if s.ExtendersNotCalled {
		writeLine(w, "Extenders are not called.")
	}
	writeLine(w, capacityLimits)
	return nil
}

// printNext prints what keeps the next pod or group pending.
func printNext(w io.Writer, next *v1alpha1.NextPod) error {
	if next.PodGroup != nil {
		line := "The next group does not fit."
		if next.Message != "" {
			line = "The next group does not fit: " + strings.TrimSuffix(next.Message, ".") + "."
		}
		writeLine(w, line)
		writeLine(w, podGroupLine(next.PodGroup))
	} else {
		writeLine(w, fmt.Sprintf("The next one: %s. %s", next.Verdict, next.Message))
	}
	printSuggestions(w, next.Suggestions)
	return printGroups(w, next.Groups, false)
}

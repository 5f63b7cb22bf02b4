// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/print"
	"github.com/livesched/livesched/internal/scheduler/capture"
	"github.com/livesched/livesched/internal/scheduler/replay/report"
)

type replayOptions struct {
	simulateOptions
	explain string
	names   string
}

func newReplay(shared *options) *cobra.Command {
	o := &replayOptions{simulateOptions: simulateOptions{options: shared}}
	command := &cobra.Command{
		Use:   "replay FILE",
		Short: "Make the decisions in a snapshot again, without the cluster",
		Long: "Make the decisions in a snapshot again, without the cluster, and list those that differ. A decision " +
			"is the same if the pod fits on as many " +
			"nodes, and if the recorded node is one of those with the highest score, which is the same: among equal " +
			"nodes, livesched draws. " +
			"A decision can be made again as long as nothing but later decisions has changed nodes and pods since.\n" +
			"\n" +
			"With --filename, show what other profiles and policies would do to the pods in the snapshot, as " +
			"`kubectl livesched simulate` does. " +
			"With --explain, explain why a pod in it is pending.\n\n" +
			"The command has the plugins of Kubernetes and livesched. It cannot use profiles with other plugins.\n\n" +
			"The scheduler that makes the decisions is a program of its own, kubectl-livesched-replay. It must be in " +
			"your PATH or in the directory of kubectl-livesched.",
		Example: "  kubectl livesched replay bug.gz\n\n  kubectl livesched replay bug.gz -f binpack.yaml\n\n" +
			"  kubectl livesched replay bug.gz --explain default/large",
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if o.openReplay == nil {
				return o.runReplayProgram(command)
			}
			return o.run(command.Context(), args[0])
		},
	}
	o.addFileFlags(command, "SchedulerProfiles and SchedulingPolicies")
	flags := command.Flags()
	flags.StringVar(&o.names, "pseudonyms", "",
		"File that snapshot --pseudonyms wrote: shows the names in a redacted snapshot.")
	flags.StringVar(&o.explain, "explain", "", "Explain why the pod NAMESPACE/NAME is pending.")
	flags.StringVar(&o.pods, "pods", "last=2000",
		"With -f: pods that are decided again: last=N, pending, or all. At most 5000.")
	flags.StringVarP(&o.namespace, "namespace", "n", "",
		"With -f: only pods of this namespace. Default: all namespaces.")
	flags.StringVarP(&o.selector, "selector", "l", "", "With -f: only pods with these labels.")
	flags.Int64Var(&o.seed, "seed", 1, "With -f: seed of the draws among nodes of equal score.")
	flags.StringArrayVar(&o.failOn, "fail-on", nil,
		"With -f: exit with 1 if this holds for the new configuration, such as unplaced>0.")
	addOutputFlag(command, &o.output, print.JSON, print.YAML, print.Wide)
	command.MarkFlagsMutuallyExclusive("filename", "explain")
	return command
}

// Replay makes the decisions in a snapshot again, and answers questions about its pods.
type Replay interface {
	// Unusable has the reasons why profiles of the snapshot cannot be used, by their names.
	Unusable() map[string]error
	// Decide makes the recorded decisions again.
	Decide(ctx context.Context) (*report.Report, error)
	// Simulate sets the status of a Simulation.
	Simulate(ctx context.Context, simulation *v1alpha1.Simulation) error
	// Explain explains why a pod of the snapshot is pending.
	Explain(ctx context.Context, pod *corev1.Pod) (*v1alpha1.PodExplanation, error)
	Close()
}

func (o *replayOptions) run(ctx context.Context, name string) error {
	snapshot, err := o.read(name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	replay, err := o.openReplay(ctx, snapshot)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer replay.Close()
	switch {
	case o.explain != "":
		return o.explainPod(ctx, snapshot, replay)
	case len(o.files) > 0:
		return o.simulate(ctx, replay)
	}
	return o.decide(ctx, snapshot, replay)
}

func (o *replayOptions) read(name string) (*capture.Snapshot, error) {
	from := o.In
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		from = file
	}
	names := map[string]string{}
	if o.names != "" {
		var err error
		if names, err = readNames(o.names); err != nil {
			return nil, err
		}
	}
	return capture.ReadWithNames(from, capture.DefaultLimits, names)
}

// decide makes the recorded decisions again.
func (o *replayOptions) decide(ctx context.Context, snapshot *capture.Snapshot, replay Replay) error {
	report, err := replay.Decide(ctx)
	if err != nil {
		return err
	}
	if print.IsData(o.output) {
		err = print.As(o.Out, o.output, report)
	} else {
		err = print.Replay(o.Out, snapshot, replay.Unusable(), report, o.output == print.Wide)
	}
	if err == nil && len(report.Different) > 0 {
		return errFound
	}
	return err
}

// simulate compares the configuration in the snapshot with that in files.
func (o *replayOptions) simulate(ctx context.Context, replay Replay) error {
	conditions, err := parseConditions(o.failOn)
	if err != nil {
		return err
	}
	simulation := newSimulation(o.namespace)
	if simulation.Spec, err = o.spec(); err != nil {
		return err
	}
	if err := replay.Simulate(ctx, simulation); err != nil {
		return err
	}
	if err := o.print(simulation, simulation); err != nil {
		return err
	}
	return o.fail(conditions, &simulation.Status)
}

// explainPod explains why a pod is pending.
func (o *replayOptions) explainPod(ctx context.Context, snapshot *capture.Snapshot, replay Replay) error {
	pod, err := findPending(snapshot, o.explain)
	if err != nil {
		return err
	}
	explanation, err := replay.Explain(ctx, pod)
	if err != nil {
		return err
	}
	if print.IsData(o.output) {
		return print.As(o.Out, o.output, explanation)
	}
	return print.Explanation(o.Out, explanation, snapshot.Header.Time, o.output == print.Wide)
}

// findPending returns a pending pod by its namespace and name.
func findPending(snapshot *capture.Snapshot, name string) (*corev1.Pod, error) {
	for _, pod := range snapshot.Pending {
		if pod.Namespace+"/"+pod.Name == name {
			return pod, nil
		}
	}
	for _, pod := range snapshot.Pods {
		if pod.Namespace+"/"+pod.Name == name {
			return nil, fmt.Errorf("--explain: the pod %s is on node %s", name, pod.Spec.NodeName)
		}
	}
	var some []string
	for _, pod := range snapshot.Pending[:min(len(snapshot.Pending), 3)] {
		some = append(some, pod.Namespace+"/"+pod.Name)
	}
	if len(some) == 0 {
		return nil, errors.New("--explain: no pod is pending")
	}
	return nil, fmt.Errorf("--explain: there is no pod %s; pending are, for example, %s", name,
		strings.Join(some, ", "))
}

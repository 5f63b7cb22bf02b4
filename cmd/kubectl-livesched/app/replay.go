// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/capture"
	"github.com/livesched/livesched/internal/scheduler/explain"
	"github.com/livesched/livesched/internal/scheduler/plugins"
	"github.com/livesched/livesched/internal/scheduler/replay"
	"github.com/livesched/livesched/internal/scheduler/simulate"
)

type replayOptions struct {
	*options
	files     []string
	recursive bool
	pods      string
	namespace string
	selector  string
	seed      int64
	failOn    []string
	explain   string
	names     string
	output    string
}

func newReplay(shared *options) *cobra.Command {
	o := &replayOptions{options: shared}
	command := &cobra.Command{
		Use:   "replay FILE",
		Short: "Make the decisions in a snapshot again, without the cluster",
		Long: "Make the decisions in a snapshot again, without the cluster, and list those that differ. A decision is the same if the pod fits on as many " +
			"nodes, and if the recorded node is one of those with the highest score, which is the same: among equal nodes, livesched draws. " +
			"A decision can be made again as long as nothing but later decisions has changed nodes and pods since.\n\n" +
			"With --filename, show what other profiles and policies would do to the pods in the snapshot, as `kubectl livesched simulate` does. " +
			"With --explain, explain why a pod in it is pending.\n\n" +
			"The command has the plugins of Kubernetes and livesched. It cannot use profiles with other plugins.",
		Example: "  kubectl livesched replay bug.gz\n\n  kubectl livesched replay bug.gz -f binpack.yaml\n\n" +
			"  kubectl livesched replay bug.gz --explain default/large",
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error { return o.run(command.Context(), args[0]) },
	}
	addOptionalFilesFlags(command, &o.files, &o.recursive, "SchedulerProfiles and SchedulingPolicies")
	flags := command.Flags()
	flags.StringVar(&o.names, "pseudonyms", "", "File that snapshot --pseudonyms wrote: shows the names in a redacted snapshot.")
	flags.StringVar(&o.explain, "explain", "", "Explain why the pod NAMESPACE/NAME is pending.")
	flags.StringVar(&o.pods, "pods", "last=2000", "With -f: pods that are decided again: last=N, pending, or all. At most 5000.")
	flags.StringVarP(&o.namespace, "namespace", "n", "", "With -f: only pods of this namespace. Default: all namespaces.")
	flags.StringVarP(&o.selector, "selector", "l", "", "With -f: only pods with these labels.")
	flags.Int64Var(&o.seed, "seed", 1, "With -f: seed of the draws among nodes of equal score.")
	flags.StringArrayVar(&o.failOn, "fail-on", nil, "With -f: exit with 1 if this holds for the new configuration, such as unplaced>0.")
	addOutputFlag(command, &o.output, formatJSON, formatYAML, formatWide)
	command.MarkFlagsMutuallyExclusive("filename", "explain")
	return command
}

func (o *replayOptions) run(ctx context.Context, name string) error {
	snapshot, err := o.read(name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	registry, err := plugins.NewRegistry(nil)
	if err != nil {
		return err
	}
	state, err := replay.New(ctx, snapshot, registry)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer state.Close()
	switch {
	case o.explain != "":
		return o.explainPod(ctx, snapshot, state)
	case len(o.files) > 0:
		return o.simulate(ctx, snapshot, state)
	}
	return o.decide(ctx, snapshot, state)
}

// read reads a snapshot, and sets the feature gates that it was taken with.
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
	snapshot, err := capture.ReadWithNames(from, capture.DefaultLimits, names)
	if err != nil {
		return nil, err
	}
	if gates := snapshot.Header.FeatureGates; len(gates) > 0 {
		if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(gates); err != nil {
			return nil, fmt.Errorf("setting the feature gates of version %s: %w", snapshot.Header.Livesched, err)
		}
	}
	return snapshot, nil
}

// decide makes the recorded decisions again.
func (o *replayOptions) decide(ctx context.Context, snapshot *capture.Snapshot, state *replay.State) error {
	report, err := state.Decide(ctx)
	if err != nil {
		return err
	}
	if isData(o.output) {
		err = writeAs(o.Out, o.output, report)
	} else {
		err = printReplay(o.Out, snapshot, state.Unusable(), report, o.output == formatWide)
	}
	if err == nil && len(report.Different) > 0 {
		return errFound
	}
	return err
}

// simulate compares the configuration in the snapshot with that in files.
func (o *replayOptions) simulate(ctx context.Context, snapshot *capture.Snapshot, state *replay.State) error {
	asked := &simulateOptions{options: o.options, namespace: o.namespace, files: o.files, recursive: o.recursive, pods: o.pods, selector: o.selector, seed: o.seed, output: o.output}
	conditions, err := parseConditions(o.failOn)
	if err != nil {
		return err
	}
	simulation := &v1alpha1.Simulation{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Simulation"}, Metadata: metav1.ObjectMeta{Namespace: o.namespace},
	}
	if simulation.Spec, err = asked.spec(); err != nil {
		return err
	}
	request, err := simulate.Parse(simulation)
	if err != nil {
		return err
	}
	if request.Changes, err = state.Changes(simulation.Spec.Profiles, simulation.Spec.Policies); err != nil {
		return err
	}
	request.Pending = snapshot.Pending
	k, err := state.Fork(ctx)
	if err != nil {
		return err
	}
	defer k.Close()
	status, err := simulate.Run(ctx, k, request)
	if err != nil {
		return err
	}
	simulation.Status, simulation.Status.Time = *status, metav1.NewTime(snapshot.Header.Time)
	if isData(o.output) {
		err = writeAs(o.Out, o.output, simulation)
	} else {
		err = printSimulation(o.Out, simulation, o.output == formatWide)
	}
	if err != nil {
		return err
	}
	return asked.fail(conditions, &simulation.Status)
}

// replaySuggestFor is how long changes that may help are tried. No scheduler shares the processors,
// so there is time for more of them than livesched has.
const replaySuggestFor = 2 * time.Second

// explainPod explains why a pod is pending.
func (o *replayOptions) explainPod(ctx context.Context, snapshot *capture.Snapshot, state *replay.State) error {
	pod, err := findPending(snapshot, o.explain)
	if err != nil {
		return err
	}
	in := explain.Pending{Pod: pod, Group: state.Group(pod), Now: snapshot.Header.Time, SuggestFor: replaySuggestFor}
	for _, nomination := range snapshot.Nominations {
		if nomination.Pod == pod.UID {
			in.NominatedNode = nomination.Node
		}
	}
	k, err := state.Fork(ctx)
	if err != nil {
		return err
	}
	defer k.Close()
	explanation, err := explain.Explain(ctx, k, in)
	if err != nil {
		return err
	}
	if isData(o.output) {
		return writeAs(o.Out, o.output, explanation.PodExplanation)
	}
	return printExplanation(o.Out, explanation.PodExplanation, snapshot.Header.Time, o.output == formatWide)
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
	for _, pod := range snapshot.Pending[:min(len(snapshot.Pending), fewPods)] {
		some = append(some, pod.Namespace+"/"+pod.Name)
	}
	if len(some) == 0 {
		return nil, errors.New("--explain: no pod is pending")
	}
	return nil, fmt.Errorf("--explain: there is no pod %s; pending are, for example, %s", name, strings.Join(some, ", "))
}

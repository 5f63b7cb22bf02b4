// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/print"
)

type explainOptions struct {
	*options
	livesched     remoteOptions
	namespace     string // of the pod
	allNamespaces bool
	selector      string
	node          string
	output        string
}

func newExplain(shared *options) *cobra.Command {
	o := &explainOptions{options: shared}
	command := &cobra.Command{
		Use:   "explain [pod/NAME | TYPE/NAME] [-l SELECTOR] [-n NAMESPACE | -A]",
		Short: "Explain why pods are pending, or why a pod is on its node",
		Long: "Explain why a pod is pending: which nodes refuse it and why, what would help, and when it is tried " +
			"again. " +
			"Or explain why it is on its node: how many nodes it fitted, and the nodes with the highest scores. " +
			"With --node, explain why it is not on a certain node.\n\n" +
			"TYPE/NAME is a PodGroup, or anything that owns or selects pods, such as a Deployment or a Job: the " +
			"command explains one pending pod " +
			"of each kind. Without a name, it prints one line for each kind of pending pod of the namespace, of the " +
			"pods that -l selects, or " +
			"with -A of the cluster.\n\n" +
			"The command asks a running livesched, through a port that the API server forwards, with your " +
			"credentials. It requires the permissions of " +
			"the Role livesched-client in livesched's namespace, and the permission to get " +
			"podexplanations.livesched.io in the namespace of the pod, which " +
			"the ClusterRole view includes. The names of nodes are shown only to those who may list nodes. To " +
			"explain anything but a pod, you must be permitted to list pods.",
		Example: "  kubectl livesched explain pod/train-7 -n ml\n\n  # Why is it not on this node?\n  kubectl " +
			"livesched explain pod/train-7 -n ml --node gpu-3\n\n" +
			"  kubectl livesched explain deployment/web\n\n  # All pending pods of a namespace\n  kubectl livesched " +
			"explain -n ml",
		Args: cobra.MaximumNArgs(2),
		RunE: func(command *cobra.Command, args []string) error { return o.run(command.Context(), args) },
	}
	flags := command.Flags()
	flags.StringVarP(&o.namespace, "namespace", "n", "",
		"Namespace of the pods. Default: the namespace of your context.")
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "Explain the pending pods of all namespaces.")
	flags.StringVarP(&o.selector, "selector", "l", "",
		"Explain the pending pods that this label selector matches, such as app=web.")
	flags.StringVar(&o.node, "node", "",
		"Explain why the pod is not on this node: what refuses it, or its scores there.")
	o.livesched.addFlags(command)
	addOutputFlag(command, &o.output, print.JSON, print.YAML, print.Wide)
	return command
}

func (o *explainOptions) run(ctx context.Context, args []string) error {
	target, err := o.target(args)
	if err != nil {
		return err
	}
	if o.namespace, err = o.namespaceOr(o.namespace); err != nil {
		return err
	}
	switch target.kind {
	case "":
		return o.explainPending(ctx)
	case kindPod:
		return o.explainPod(ctx, target.name)
	case kindPodGroup:
		return o.explainGroup(ctx, target.name)
	default:
		return o.explainOwner(ctx, target)
	}
}

// explainPod explains one pod.
func (o *explainOptions) explainPod(ctx context.Context, name string) error {
	text, explanation, err := o.ask(ctx, o.namespace, name)
	if err != nil {
		return err
	}
	if o.node != "" && explanation.Node == nil && explanation.Profile != "" &&
		explanation.Verdict != v1alpha1.VerdictUnknown {
		return errors.New("--node: this livesched is older than this plugin, and does not compare nodes")
	}
	if print.IsData(o.output) {
		return print.As(o.Out, o.output, text)
	}
	return print.Explanation(o.Out, explanation, time.Now(), o.output == print.Wide)
}

// ask returns the explanation of a pod, also as JSON with the fields that this plugin does not
// know.
func (o *explainOptions) ask(ctx context.Context,
	namespace, name string) (json.RawMessage, *v1alpha1.PodExplanation, error) {
	parameters := map[string]string{}
	if o.node != "" {
		parameters["node"] = o.node
	}
	livesched, err := o.remote(&o.livesched, answerTimeout)
	if err != nil {
		return nil, nil, err
	}
	explanation := &v1alpha1.PodExplanation{}
	text, err := livesched.Get(ctx, "podexplanations", namespace, name, parameters, explanation)
	return text, explanation, err
}

// target returns the object that the arguments name. Without a kind, all pending pods of a
// namespace are explained.
func (o *explainOptions) target(args []string) (objectName, error) {
	target, err := explainedName(args)
	switch {
	case err != nil:
		return objectName{}, err
	case target.kind != "" && o.selector != "":
		return objectName{}, errors.New("--selector: must not be set with a name")
	case target.kind != "" && o.allNamespaces:
		return objectName{}, errors.New("--all-namespaces: must not be set with a name")
	case o.namespace != "" && o.allNamespaces:
		return objectName{}, errors.New("--all-namespaces: must not be set with --namespace")
	case target.kind != kindPod && o.node != "":
		return objectName{}, errors.New("--node: requires the name of a pod, such as pod/web-1")
	}
	return target, nil
}

// explainedName returns the name in the arguments KIND/NAME or KIND NAME. Without a name, or with
// the kind of pods alone, it is empty.
func explainedName(args []string) (objectName, error) {
	n, found := cutName(args)
	switch {
	case n.kind == "" && found:
		return objectName{}, fmt.Errorf("%q has no type: use pod/%s", "/"+n.name, n.name)
	case !found && (n.kind == "" || n.kind == kindPod):
		return objectName{}, nil
	case !found && n.kind != kindPodGroup:
		return objectName{}, fmt.Errorf("%[1]q has no type: use pod/%[1]s, or deployment/%[1]s; without a name, all "+
			"pending pods are explained", n.kind)
	case !n.isOne():
		return objectName{}, fmt.Errorf("%q is not the name of a %s", n.name, n.kind)
	}
	return n, nil
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/remote"
)

// answerTimeout limits the time for an answer of livesched if --request-timeout is not set.
const answerTimeout = 30 * time.Second

// remoteOptions say how to reach livesched.
type remoteOptions struct {
	lease, url, ca string
}

type explainOptions struct {
	*options
	livesched remoteOptions
	namespace string // of the pod
	output    string
}

func newExplain(shared *options) *cobra.Command {
	o := &explainOptions{options: shared}
	command := &cobra.Command{
		Use:   "explain (pod|podgroup) NAME",
		Short: "Explain why a pod or the pods of a PodGroup are pending, or why a pod is on its node",
		Long: "Explain why a pod is pending: which nodes refuse it and why, what would help, and what it waits for. " +
			"Or explain why it is on its node: how many nodes it fitted, and the nodes with the highest scores. " +
			"Of a PodGroup, it explains one pending pod of each kind, and how many of the group fit together now.\n\n" +
			"The command asks a running livesched, through a port that the API server forwards, with your credentials. It requires the permissions of " +
			"the Role livesched-client in livesched's namespace, and the permission to get podexplanations.livesched.io in the namespace of the pod, which " +
			"the ClusterRole view includes. The names of nodes are shown only to those who may list nodes. To explain a PodGroup, you must be permitted to list pods.",
		Example: "  kubectl livesched explain pod/train-7 -n ml\n\n  kubectl livesched explain pod train-7 -n ml -o yaml\n\n  kubectl livesched explain podgroup/train -n ml",
		Args:    cobra.RangeArgs(1, 2),
		RunE:    func(command *cobra.Command, args []string) error { return o.run(command.Context(), args) },
	}
	command.Flags().StringVarP(&o.namespace, "namespace", "n", "", "Namespace of the pod. Default: that of your context.")
	o.livesched.addFlags(command)
	addOutputFlag(command, &o.output, formatJSON, formatYAML)
	return command
}

func (o *remoteOptions) addFlags(command *cobra.Command) {
	command.Flags().StringVar(&o.lease, "lease", "livesched", "Name of livesched's Lease: the value of its flag --leader-election-name.")
	command.Flags().StringVar(&o.url, "livesched-url", os.Getenv("LIVESCHED_URL"),
		"URL of livesched's secure port, such as https://livesched.example:10259, instead of a forwarded port. Default: the environment variable LIVESCHED_URL.")
	command.Flags().StringVar(&o.ca, "livesched-ca", os.Getenv("LIVESCHED_CA"),
		"File with the certificate authorities that verify --livesched-url. Default: the environment variable LIVESCHED_CA, or the authorities of the system.")
}

// check returns an error if the flags contradict each other.
func (o *remoteOptions) check() error {
	if o.ca != "" && o.url == "" {
		return errors.New("--livesched-ca (LIVESCHED_CA): has no effect without --livesched-url (LIVESCHED_URL)")
	}
	return nil
}

func (o *explainOptions) run(ctx context.Context, args []string) error {
	kind, name, err := explainedName(args)
	if err != nil {
		return err
	}
	if err := o.livesched.check(); err != nil {
		return err
	}
	if o.namespace == "" {
		if o.namespace, _, err = o.flags.ToRawKubeConfigLoader().Namespace(); err != nil {
			return err
		}
	}
	if kind == "podgroup" {
		return o.explainGroup(ctx, name)
	}
	text, err := o.ask(ctx, "podexplanations", name)
	if err != nil {
		return err
	}
	if o.output != "" {
		return writeAnswer(o.Out, o.output, text)
	}
	var explanation v1alpha1.PodExplanation
	if err := json.Unmarshal(text, &explanation); err != nil {
		return fmt.Errorf("reading the answer of livesched: %w", err)
	}
	return printExplanation(o.Out, &explanation, time.Now())
}

// ask returns an object of the namespace as JSON, as livesched answers.
func (o *explainOptions) ask(ctx context.Context, resource, name string) ([]byte, error) {
	config, err := o.flags.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	timeout := config.Timeout
	if timeout == 0 {
		timeout = answerTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	livesched := &remote.Livesched{
		Config: config, Namespace: o.liveschedNamespace, Lease: o.livesched.lease, URL: o.livesched.url, CAFile: o.livesched.ca,
	}
	return livesched.Get(ctx, resource, o.namespace, name)
}

// explainedName returns the kind, "pod" or "podgroup", and the name in the arguments kind/NAME or
// kind NAME.
func explainedName(args []string) (kind, name string, err error) {
	kind, name, found := strings.Cut(strings.Join(args, "/"), "/")
	switch kind {
	case "pod", "pods", "po":
		kind = "pod"
	case "podgroup", "podgroups", "pg":
		kind = "podgroup"
	default:
		if !found {
			return "", "", fmt.Errorf("explain what? Use `explain pod %s`", kind)
		}
		return "", "", fmt.Errorf("livesched explains pods and podgroups, not %q", kind)
	}
	if name == "" || strings.Contains(name, "/") {
		return "", "", fmt.Errorf("%q is not the name of a %s", name, kind)
	}
	return kind, name, nil
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/remote"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/top"
)

// topDecisions is the number of decisions that rates and kinds of pods are computed from.
const topDecisions = 1000

type topOptions struct {
	*options
	livesched remoteOptions
	namespace string
	interval  time.Duration
	once      bool
}

func newTop(shared *options) *cobra.Command {
	o := &topOptions{options: shared}
	command := &cobra.Command{
		Use:   "top",
		Short: "Watch queues, rates, reloads and the pods that wait",
		Long: "Watch a running livesched: the pending pods of each profile by queue, the pods that it places a " +
			"second, its last reload, and the kinds of pods " +
			"that got no node. Press ? for the keys. Without a terminal, or with --once, the command prints this " +
			"once.\n\n" +
			"Rates and kinds of pods come from the last 1,000 decisions. The numbers of pods are the same as in " +
			"`status`, - if they are unknown.\n\n" +
			"The command requires the permissions of `status`, the permissions of the Role livesched-client in " +
			"livesched's namespace, and the permission to list " +
			"decisions.livesched.io, in all namespaces or in the namespace of --namespace. It shows what you may not " +
			"read as an error, and the rest.",
		Example: "  kubectl livesched top\n\n  # One frame, for a report\n  kubectl livesched top --once -n ml",
		Args:    cobra.NoArgs,
		RunE:    func(command *cobra.Command, _ []string) error { return o.run(command.Context()) },
	}
	flags := command.Flags()
	flags.StringVarP(&o.namespace, "namespace", "n", "",
		"Namespace of the pods whose decisions count. Default: all namespaces.")
	flags.DurationVar(&o.interval, "interval", 2*time.Second, "Time between two reads, at least 1s.")
	flags.BoolVar(&o.once, "once", false, "Print one frame, and exit.")
	o.livesched.addFlags(command)
	return command
}

func (o *topOptions) run(ctx context.Context) error {
	if o.interval < time.Second {
		return fmt.Errorf("--interval: must be at least 1s, not %s", o.interval)
	}
	c, err := o.client()
	if err != nil {
		return err
	}
	config, err := o.flags.ToRESTConfig()
	if err != nil {
		return err
	}
	read := func(ctx context.Context) top.Data { return o.read(ctx, c, config) }
	t := terminal.Of(o.Out)
	if t.Interactive() && !o.once {
		return top.Run(ctx, o.In, t.Writer, read, o.interval, t.Colors())
	}
	data := read(ctx)
	if data.Profiles == nil && data.Decisions == nil {
		return errors.New(data.Errors[0])
	}
	_, err = io.WriteString(t, top.Once(data, t.Width(), t.Colors()))
	return err
}

// read reads what top shows.
func (o *topOptions) read(ctx context.Context, c client.Client, config *rest.Config) top.Data {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(config.Timeout, answerTimeout))
	defer cancel()
	var data top.Data
	report, err := readStatus(ctx, c, nil)
	if err != nil {
		data.Errors = append(data.Errors, fmt.Sprintf("profiles: %v", remote.WithRole(err)))
	} else {
		pods := o.countPods(ctx, &o.livesched)
		report.SetPods(pods.byProfile, pods.unknown)
		data.Profiles = report.Profiles
	}
	var queues, decisions string // why they could not be read
	if report != nil {
		queues = report.PodsUnknown
	}
	if data.Decisions, err = o.readDecisions(ctx); err != nil {
		decisions = oneLine(err)
	}
	if queues != "" && queues == decisions {
		data.Errors, queues, decisions = append(data.Errors, "queues, decisions: "+queues), "", ""
	}
	if queues != "" {
		data.Errors = append(data.Errors, "queues: "+queues)
	}
	if decisions != "" {
		data.Errors = append(data.Errors, "decisions: "+decisions)
	}
	data.Time = time.Now()
	return data
}

func (o *topOptions) readDecisions(ctx context.Context) ([]v1alpha1.Decision, error) {
	livesched, err := o.remote(&o.livesched, answerTimeout)
	if err != nil {
		return nil, err
	}
	var list v1alpha1.DecisionList
	if _, err := livesched.List(ctx, "decisions", o.namespace, map[string]string{"limit": strconv.Itoa(topDecisions)},
		&list); err != nil {
		return nil, err
	}
	if list.Items == nil { // which would mean that they could not be read
		list.Items = []v1alpha1.Decision{}
	}
	return list.Items, nil
}

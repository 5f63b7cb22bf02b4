// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/print"
	"github.com/livesched/livesched/internal/suggest"
)

type statusOptions struct {
	*options
	livesched remoteOptions
	output    string
	watch     bool
}

func newStatus(shared *options) *cobra.Command {
	o := &statusOptions{options: shared}
	command := &cobra.Command{
		Use:   "status [NAME | profile/NAME]...",
		Short: "Show profiles and policies, their active revisions, and the pending pods",
		Long: "Show profiles with their active revisions and pending pods, the policies that they build on, and " +
			"their problems. Without names, show all " +
			"profiles and policies. The tables are at most 80 columns wide, or as wide as the terminal: -o wide " +
			"shows whole names and more columns.\n\n" +
			"The command asks a running livesched for the numbers of pods. That requires the permissions of the Role " +
			"livesched-client in livesched's " +
			"namespace, and the permission to list queues.livesched.io, which the ClusterRole livesched-viewer has. " +
			"If there is no answer, these columns " +
			"have a -, and the last line has the reason.",
		Example: "  kubectl livesched status\n\n  kubectl livesched status binpack -o yaml\n\n  # Follow a change\n  " +
			"kubectl livesched status -w",
		RunE: func(command *cobra.Command, args []string) error { return o.run(command.Context(), args) },
	}
	o.addFormerNamespaceFlag(command)
	o.livesched.addFlags(command)
	addOutputFlag(command, &o.output, print.Wide, print.JSON, print.YAML)
	command.Flags().BoolVarP(&o.watch, "watch", "w", false,
		"Show the status again whenever it changes, until interrupted. The numbers of pods are read every 2 seconds.")
	return command
}

func (o *statusOptions) run(ctx context.Context, args []string) error {
	names, err := profilesNamed(args)
	if err != nil {
		return err
	}
	c, err := o.client()
	if err != nil {
		return err
	}
	config, err := o.flags.ToRESTConfig()
	if err != nil {
		return err
	}
	report, err := readStatus(ctx, c, names)
	if err != nil {
		return err
	}
	pods := o.countPods(ctx, &o.livesched)
	report.SetPods(pods.byProfile, pods.unknown)
	if err := o.print(report); err != nil || !o.watch {
		return err
	}
	return o.follow(ctx, config, names, report, pods)
}

// readStatus reads the status of the named profiles, or of all, without the numbers of pods.
func readStatus(ctx context.Context, c client.Reader, names []string) (*print.Status, error) {
	var profiles v1alpha1.SchedulerProfileList
	if err := c.List(ctx, &profiles); err != nil {
		return nil, err
	}
	var policies v1alpha1.SchedulingPolicyList
	if err := c.List(ctx, &policies); err != nil {
		return nil, err
	}
	if err := only(&profiles, &policies, names); err != nil {
		return nil, err
	}
	// A cache has no order.
	slices.SortFunc(profiles.Items, func(a, b v1alpha1.SchedulerProfile) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(policies.Items, func(a, b v1alpha1.SchedulingPolicy) int { return cmp.Compare(a.Name, b.Name) })
	return print.NewStatus(profiles.Items, policies.Items), nil
}

// only keeps the named profiles and the policies that they build on. Without names it keeps all.
func only(profiles *v1alpha1.SchedulerProfileList, policies *v1alpha1.SchedulingPolicyList, names []string) error {
	if len(names) == 0 {
		return nil
	}
	var known []string
	for i := range profiles.Items {
		known = append(known, profiles.Items[i].Name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("there is no SchedulerProfile %q%s", name, suggest.DidYouMean(name, known))
		}
	}
	builtOn := sets.New[string]()
	profiles.Items = slices.DeleteFunc(profiles.Items,
		func(p v1alpha1.SchedulerProfile) bool { return !slices.Contains(names, p.Name) })
	for i := range profiles.Items {
		builtOn.Insert(policyNameOf(&profiles.Items[i].Spec), print.NewProfileStatus(&profiles.Items[i]).Policy)
	}
	policies.Items = slices.DeleteFunc(policies.Items,
		func(p v1alpha1.SchedulingPolicy) bool { return !builtOn.Has(p.Name) })
	return nil
}

// print prints the report in the format that the user chose.
func (o *statusOptions) print(report *print.Status) error {
	if print.IsData(o.output) {
		return print.As(o.Out, o.output, report)
	}
	return report.Print(o.Out, o.output == print.Wide)
}

// pendingPods are the pending pods of all profiles that run.
type pendingPods struct {
	byProfile map[string]*print.PodCounts
	// unknown is why they could not be read, "" if they were read.
	unknown string
}

// countPods asks livesched for the pending pods.
func (o *options) countPods(ctx context.Context, at *remoteOptions) pendingPods {
	livesched, err := o.remote(at, queuesTimeout)
	if err != nil {
		return pendingPods{unknown: oneLine(err)}
	}
	var queues v1alpha1.QueueList
	_, err = livesched.List(ctx, "queues", "", nil, &queues)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return pendingPods{unknown: fmt.Sprintf("livesched did not answer within %v", livesched.Timeout)}
	case err != nil:
		return pendingPods{unknown: oneLine(err)}
	}
	pods := pendingPods{byProfile: map[string]*print.PodCounts{}}
	for _, q := range queues.Items {
		pods.byProfile[q.Profile] = &print.PodCounts{Active: q.Active, Backoff: q.Backoff,
			Unschedulable: q.Unschedulable, Gated: q.Gated}
	}
	return pods
}

// oneLine returns the text of an error without line breaks, of which joined errors have some.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

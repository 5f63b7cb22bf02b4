// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reload measures the cost of changing a profile, in a livesched that runs in this process
// on a real etcd and kube-apiserver: the time from the change to the first decision under it while
// pods wait, and the loss of throughput while a profile changes every second.
package reload

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/livesched/livesched/hack/bench/report"
	"github.com/livesched/livesched/test/workload"
)

type options struct {
	nodes, pods int
	kind        string
	reloads     int
	profiles    int
	length      time.Duration
	runs        int
	reportedFor time.Duration
	crowd       int
}

// Command returns the subcommand.
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "What changing a profile costs, while pods wait and while they are scheduled",
		Args:  cobra.NoArgs,
		RunE:  report.RunE(o.validate, o.run, Tables),
	}
	flags := cmd.Flags()
	flags.IntVar(&o.nodes, "nodes", 5000, "nodes of the cluster")
	flags.IntVar(&o.pods, "pods", 10000, "pods that wait while the profile is changed")
	flags.StringVar(&o.kind, "kind", workload.Basic, "kind of pods")
	flags.IntVar(&o.reloads, "reloads", 50, "changes of a profile for each kind of pending pods; 0: none")
	flags.IntVar(&o.profiles, "profiles", 20, "number of profiles, one of which is changed")
	flags.DurationVar(&o.length, "length", time.Minute, "time for which pods are scheduled without reloads, and "+
		"again with a reload every second, in windows that take turns; 0: none")
	flags.IntVar(&o.runs, "runs", 1, "repetitions of the measurement with and without reloads")
	flags.DurationVar(&o.reportedFor, "reported-for", 30*time.Second, "time for which changes are measured until the "+
		"status reports them, while as many pods as --pods wait or are being bound; 0: none")
	flags.IntVar(&o.crowd, "crowd", 1000, "number of profiles that are created and changed together while changes of "+
		"another profile are measured; 0: none")
	report.AddFlags(cmd)
	return cmd
}

func (o *options) validate() error {
	err := errors.Join(
		report.Positive("nodes", o.nodes), report.Positive("pods", o.pods), report.Positive("profiles", o.profiles),
		report.Positive("runs", o.runs), report.OneOf("kind", []string{o.kind}, workload.Kinds),
	)
	if o.reloads < 0 || o.length < 0 || o.reportedFor < 0 || o.crowd < 0 {
		err = errors.Join(err, fmt.Errorf("--reloads %d --length %v --reported-for %v --crowd %d: none can be below 0",
			o.reloads, o.length, o.reportedFor, o.crowd))
	}
	return err
}

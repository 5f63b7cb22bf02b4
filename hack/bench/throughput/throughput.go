// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package throughput measures the end-to-end throughput of livesched and kube-scheduler in bound
// pods per second, on a real etcd and kube-apiserver on this machine and nodes without kubelets.
// The contenders take turns on one control plane with the same pods, client QPS and encoding.
// Bind-only is the ceiling: a client that binds each pod to the next node without any decision.
package throughput

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/livesched/livesched/hack/bench/cluster"
	"github.com/livesched/livesched/hack/bench/report"
	"github.com/livesched/livesched/test/controlplane/binaries"
)

type options struct {
	nodes      []int
	kinds      []string
	contenders []string
	pods, runs int
	// backlog is the number of pods that fit nowhere in the scenario backlog, of backlogJobs Jobs.
	backlog, backlogJobs int
	// gang is the number of pods of a gang.
	gang int
	// questions is how often questions are asked, each second.
	questions int
	livesched string
}

// Command returns the subcommand.
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "throughput",
		Short: "Pods a second, end to end, beside kube-scheduler and a client that only binds",
		Args:  cobra.NoArgs,
		RunE:  report.RunE(o.validate, o.run, Tables),
	}
	flags := cmd.Flags()
	flags.IntSliceVar(&o.nodes, "nodes", []int{1000, 5000}, "nodes of the clusters")
	flags.StringSliceVar(&o.kinds, "kinds", defaultKinds, "kinds of pods, or what else happens: "+churn+", "+preemption+
		", "+unschedulable+", "+besideBacklog+"; or, alone, "+gangs+" and "+gangsInRacks)
	flags.StringSliceVar(&o.contenders, "contenders", []string{bindOnly, kubeScheduler, livesched},
		fmt.Sprint("who binds; there are ", slices.Sorted(maps.Keys(contenders))))
	flags.IntVar(&o.pods, "pods", 4000, "pods to schedule; a quarter of them for "+preemption+" and "+unschedulable+
		", where five times as many others come behind")
	flags.IntVar(&o.backlog, "backlog", 5000, "pods that fit nowhere and wait while those of "+besideBacklog+
		" are scheduled")
	flags.IntVar(&o.backlogJobs, "backlog-jobs", 0, "Jobs that these pods are of; 0: each is of a Job of its own")
	flags.IntVar(&o.gang, "gang", 1000, "pods of a gang")
	flags.IntVar(&o.questions, "questions", 1, "how often "+asked+" and "+explained+" are asked, each second")
	flags.IntVar(&o.runs, "runs", 3, "runs of each contender, in turn; medians are printed")
	flags.StringVar(&o.livesched, "livesched", "bin/livesched", "the livesched to measure")
	report.AddFlags(cmd)
	return cmd
}

func (o *options) validate() error {
	return errors.Join(
		report.Positive("nodes", o.nodes...), report.Positive("runs", o.runs),
		report.Positive("questions", o.questions), o.validBacklog(),
		report.OneOf("kinds", o.kinds, slices.Sorted(maps.Keys(scenarios))),
		report.OneOf("contenders", o.contenders, slices.Sorted(maps.Keys(contenders))),
		o.enoughPods(), o.enoughRoom(), o.validGangs(),
	)
}

func (o *options) validBacklog() error {
	if o.backlog < 0 || o.backlogJobs < 0 {
		return errors.New("--backlog and --backlog-jobs must not be negative")
	}
	return nil
}

func (o *options) enoughPods() error {
	if o.pods < minPods {
		return fmt.Errorf("--pods %d: it must be at least %d", o.pods, minPods)
	}
	return nil
}

func (o *options) enoughRoom() error {
	for _, kind := range o.kinds {
		s, ok := scenarios[kind]
		if !ok {
			continue // another check reports it
		}
		for _, nodes := range o.nodes {
			if room := s.room(nodes); o.pods > room {
				return fmt.Errorf("--pods %d: %d nodes have room for %d in %s", o.pods, nodes, room, kind)
			}
		}
	}
	return nil
}

func (o *options) run(ctx context.Context, r *report.Report) error {
	set, err := binaries.Ensure(ctx, binaries.Config{Progress: os.Stderr}, binaries.Scheduler)
	if err != nil {
		return err
	}
	for _, nodes := range o.nodes {
		if err := o.runOn(ctx, r, nodes, set.Paths[binaries.Scheduler]); err != nil {
			return fmt.Errorf("%d nodes: %w", nodes, err)
		}
	}
	return nil
}

// runOn starts a cluster and measures all kinds on it.
func (o *options) runOn(ctx context.Context, r *report.Report, nodes int, kubeScheduler string) (err error) {
	dir, err := os.MkdirTemp("", "livesched-throughput-")
	if err != nil {
		return err
	}
	start := cluster.Start
	if o.withGangs() {
		start = cluster.StartWithPodGroups
	}
	c, err := start(ctx, nodes)
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	defer func() { err = errors.Join(err, c.Close(), os.RemoveAll(dir)) }()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	go func() {
		select {
		case <-c.Done():
			fail(c.Err())
		case <-ctx.Done():
		}
	}()
	b := &bench{Cluster: c, options: o, dir: dir, kubeScheduler: kubeScheduler}
	if err := b.createPriorityClass(ctx); err != nil {
		return err
	}
	for _, kind := range o.kinds {
		for run := range o.runs {
			for _, name := range inTurn(o.contenders, run) {
				values, err := b.measure(ctx, kind, name)
				if err != nil {
					return fmt.Errorf("%s, run %d of %s: %w", kind, run+1, name, err)
				}
				fmt.Fprintf(os.Stderr, "%d nodes, %s, run %d, %s: %.0f pods/s\n", nodes, kind, run+1, name,
					values[podsPerSecond])
				labels := map[string]string{"nodes": strconv.Itoa(nodes), "kind": kind, "contender": name}
				if err := r.Add(labels, values); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// inTurn returns the names, rotated by one for each run, because the control plane slows down as it
// stores more.
func inTurn(names []string, run int) []string {
	first := run % len(names)
	return slices.Concat(names[first:], names[:first])
}

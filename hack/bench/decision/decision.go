// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package decision measures the cost of a decision without an API server: livesched's, and
// kube-scheduler's at its default sampling and on every node. The contenders take turns, each on a
// cluster of its own; see package decidebench.
package decision

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/livesched/livesched/hack/bench/report"
	"github.com/livesched/livesched/test/decidebench"
	"github.com/livesched/livesched/test/workload"
)

// kinds are the kinds of pods that the benchmark can measure.
var kinds = append(slices.Clone(workload.Kinds), workload.Claims)

type options struct {
	nodes       []int
	kinds       []string
	contenders  []string
	pods, exact int
	rounds      int
	cold        int
}

// Command returns the subcommand.
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "decision",
		Short: "What a decision costs, without an API server",
		Args:  cobra.NoArgs,
		RunE:  report.RunE(o.validate, o.run, Tables),
	}
	flags := cmd.Flags()
	flags.IntSliceVar(&o.nodes, "nodes", []int{1000, 5000, 15000}, "nodes of the clusters")
	flags.StringSliceVar(&o.kinds, "kinds", kinds, "kinds of pods")
	flags.StringSliceVar(&o.contenders, "contenders",
		[]string{decidebench.Livesched, decidebench.KubeScheduler, decidebench.KubeSchedulerAll},
		"who decides; there is "+decidebench.Scalar+", too")
	flags.IntVar(&o.pods, "pods", 300, "decisions in each round")
	flags.IntVar(&o.exact, "exact-pods", 15,
		"decisions in each round of contenders that run every plugin on every node")
	flags.IntVar(&o.rounds, "rounds", 3, "rounds, in which the contenders take turns; medians are printed")
	flags.IntVar(&o.cold, "cold", 3, "livesched's decisions in each round about the first pod of a new class, each "+
		"followed by one about the second pod")
	report.AddFlags(cmd)
	return cmd
}

func (o *options) validate() error {
	return errors.Join(
		report.Positive("nodes", o.nodes...),
		report.Positive("pods", o.pods), report.Positive("exact-pods", o.exact), report.Positive("rounds", o.rounds),
		report.OneOf("kinds", o.kinds, kinds),
		report.OneOf("contenders", o.contenders, decidebench.Contenders),
	)
}

func (o *options) run(ctx context.Context, r *report.Report) error {
	for _, nodes := range o.nodes {
		for _, kind := range o.kinds {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			start := time.Now()
			if err := o.measure(r, workload.Pods{Kind: kind, Nodes: nodes}); err != nil {
				return fmt.Errorf("%s pods, %d nodes: %w", kind, nodes, err)
			}
			fmt.Fprintf(os.Stderr, "%s pods, %d nodes: measured in %v\n", kind, nodes,
				time.Since(start).Round(time.Second/10))
		}
	}
	return nil
}

// measure lets the contenders decide about the same pods, in turn.
func (o *options) measure(r *report.Report, pods workload.Pods) error {
	var all []*Subject
	defer func() {
		for _, s := range all {
			s.Cluster.Close()
		}
	}()
	for _, name := range o.contenders {
		c, err := decidebench.New(name)
		if err != nil {
			return err
		}
		all = append(all, &Subject{Contender: name, Cluster: c, Pods: pods})
		for i := range pods.Nodes {
			c.AddNode(workload.Node(i))
		}
	}
	for range o.rounds {
		for _, s := range all {
			n := o.pods
			if s.Contender == decidebench.Scalar || s.Contender == decidebench.KubeSchedulerAll {
				n = o.exact
			}
			values, err := s.Measure(n, o.cold)
			if err != nil {
				return fmt.Errorf("%s: %w", s.Contender, err)
			}
			labels := map[string]string{"kind": pods.Kind, "nodes": strconv.Itoa(pods.Nodes), "contender": s.Contender}
			if err := r.Add(labels, values); err != nil {
				return err
			}
		}
	}
	return nil
}

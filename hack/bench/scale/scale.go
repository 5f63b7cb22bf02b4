// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scale measures large clusters, simulated in this process. There is no API server, but
// there are the objects that an informer would keep, and a cache that is fed as the informer's
// handlers would feed it. The results show how the cost grows with nodes and pods: memory, the time
// from the start to the first decision, decisions, and changes of nodes.
package scale

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/livesched/livesched/hack/bench/report"
	"github.com/livesched/livesched/test/decidebench"
	"github.com/livesched/livesched/test/workload"
)

type options struct {
	nodes       []int
	podsPerNode int
	perSeries   int
	trim        bool
	bound       string
	kinds       []string
	contenders  []string
	decisions   int
	firsts      int
	changes     int
}

// Command returns the subcommand.
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "scale",
		Short: "Large clusters, simulated: memory, start, decisions, changes of nodes",
		Args:  cobra.NoArgs,
		RunE:  report.RunE(o.validate, o.run, Tables),
	}
	flags := cmd.Flags()
	flags.IntSliceVar(&o.nodes, "nodes", []int{5000, 15000}, "nodes of the clusters")
	flags.IntVar(&o.podsPerNode, "pods-per-node", 10, "pods that are bound, for each node")
	flags.IntVar(&o.perSeries, "pods-per-series", 100, "number of these that have equal labels")
	flags.BoolVar(&o.trim, "trim-bound-pods", true, "livesched's --trim-bound-pods")
	flags.StringVar(&o.bound, "bound", workload.Mixed, "kind of the bound pods")
	flags.StringSliceVar(&o.kinds, "kinds", []string{
		workload.Basic, workload.Owned, workload.Spread, workload.Anti, workload.Affinity, workload.Mixed,
		workload.Unique, workload.Labels,
	}, "kinds of pods that are decided about")
	flags.StringSliceVar(&o.contenders, "contenders", []string{decidebench.Livesched},
		fmt.Sprint("contenders, of ", decidebench.Contenders))
	flags.IntVar(&o.decisions, "decisions", 300, "decisions about pods of each kind")
	flags.IntVar(&o.firsts, "firsts",
		1, "livesched's decisions about the first pod of a new class, each followed by one about the second pod")
	flags.IntVar(&o.changes, "changes", 1000, "number of nodes that report a heartbeat, and of nodes that are changed")
	report.AddFlags(cmd)
	return cmd
}

func (o *options) validate() error {
	return errors.Join(
		report.Positive("nodes", o.nodes...), report.Positive("pods-per-node", o.podsPerNode),
		report.Positive("pods-per-series", o.perSeries),
		report.Positive("decisions", o.decisions), report.Positive("changes", o.changes),
		report.OneOf("bound", []string{o.bound}, workload.Kinds), report.OneOf("kinds", o.kinds, workload.Kinds),
		report.OneOf("contenders", o.contenders, decidebench.Contenders),
	)
}

func (o *options) run(ctx context.Context, r *report.Report) error {
	for _, nodes := range o.nodes {
		for _, contender := range o.contenders {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			m := &measurement{options: o, report: r, nodes: nodes, contender: contender}
			if err := m.run(); err != nil {
				return fmt.Errorf("%s, %d nodes: %w", contender, nodes, err)
			}
			debug.FreeOSMemory() // so that the next measurement begins with a fresh heap
			fmt.Fprintf(os.Stderr, "measured: %s, %d nodes\n", contender, nodes)
		}
	}
	return nil
}

// labels returns the labels of all rows about one cluster.
func (m *measurement) labels() map[string]string {
	return map[string]string{
		"nodes": strconv.Itoa(m.nodes), "pods": strconv.Itoa(m.nodes * m.podsPerNode), "contender": m.contender,
	}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fragmentation measures how much of a cluster's GPUs is allocated when pods that share
// them arrive until they request more than there is: the experiment of "Beware of Fragmentation:
// Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent" (USENIX ATC 2023), decided
// by livesched. No pod leaves, and a pod that fits nowhere is not tried again.
//
// GPUs are devices, whose capacity claims share, so Kubernetes' allocator chooses among the GPUs of
// a node. There is no API server: claims are allocated in memory.
package fragmentation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/livesched/livesched/hack/bench/report"
	"github.com/livesched/livesched/test/sidebyside"
)

// The values of rows. Percentages are of the GPUs of all nodes.
const (
	atCapacity = "allocated at 100 %"
	inTheEnd   = "allocated at the end"
	unplaced   = "pods without a node"
	perPod     = "us/pod"
)

type options struct {
	nodes, pods  string
	policies     []string
	seeds, first int
	arrivals     int
}

// Command returns the subcommand.
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "fragmentation",
		Short: "How many GPUs are allocated when pods share them, by policy",
		Args:  cobra.NoArgs,
		RunE:  report.RunE(o.validate, o.run, Tables),
	}
	flags := cmd.Flags()
	flags.StringVar(&o.nodes, "nodes", "", "nodes of Alibaba's cluster-trace-gpu-v2023 as CSV or .csv.gz; without it, "+
		"nodes and pods with the published numbers are generated")
	flags.StringVar(&o.pods, "pods", "", "pods of that trace")
	flags.StringSliceVar(&o.policies, "policies", Policies, "policies, in turn")
	flags.IntVar(&o.seeds, "seeds", 10, "orders in which pods arrive; means are printed")
	flags.IntVar(&o.first, "first-seed", 42, "seed of the first order")
	flags.IntVar(&o.arrivals, "arrivals", 130, "what all pods request together, in percent of the GPUs")
	report.AddFlags(cmd)
	return cmd
}

func (o *options) validate() error {
	err := errors.Join(report.OneOf("policies", o.policies, Policies),
		report.Positive("seeds", o.seeds), report.Positive("first-seed", o.first),
		report.Positive("arrivals", o.arrivals))
	if (o.nodes == "") != (o.pods == "") {
		err = errors.Join(err, errors.New("--nodes and --pods belong together"))
	}
	return err
}

func (o *options) run(ctx context.Context, r *report.Report) error {
	t := generate()
	if o.nodes != "" {
		var err error
		if t, err = readTrace(o.nodes, o.pods); err != nil {
			return err
		}
	}
	for i := range o.seeds {
		for _, policy := range o.policies {
			start := time.Now()
			values, err := replay(ctx, policy, uint64(o.first+i), t, float64(o.arrivals)/100)
			if err != nil {
				return fmt.Errorf("%s, seed %d: %w", policy, o.first+i, err)
			}
			labels := map[string]string{"policy": policy, "arrivals": strconv.Itoa(o.arrivals)}
			if err := r.Add(labels, values); err != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "%s, seed %d: %.2f %% in %v\n", policy, o.first+i, values[inTheEnd],
				time.Since(start).Round(time.Second/10))
		}
	}
	return nil
}

// replay lets a policy decide about the pods that arrive.
func replay(ctx context.Context, policy string, seed uint64, t *trace, share float64) (map[string]float64, error) {
	jobs := t.arrivals(seed, share)
	c, err := newCluster(ctx, policy, sidebyside.FastPath, seed, t, jobs)
	if err != nil {
		return nil, err
	}
	defer c.close()
	total := t.milliGPUs()
	percent := func(milli int64) float64 { return 100 * float64(milli) / float64(total) }
	var requested, allocated int64
	values := map[string]float64{}
	// No pod leaves, so a pod that is like one without a node has none either.
	unfit := map[job]bool{}
	start := time.Now()
	for i := range jobs {
		j := &jobs[i]
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if !unfit[*j] {
			placed, err := c.place(i, j)
			if err != nil {
				return nil, fmt.Errorf("pod %d: %w", i, err)
			}
			if placed {
				allocated += j.milliGPUs()
			} else {
				unfit[*j] = true
			}
		}
		if unfit[*j] {
			values[unplaced]++
		}
		if requested += j.milliGPUs(); requested <= total {
			values[atCapacity] = percent(allocated)
		}
	}
	values[inTheEnd] = percent(allocated)
	values[perPod] = float64(time.Since(start).Microseconds()) / float64(len(jobs))
	return values, nil
}

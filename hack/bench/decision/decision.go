// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package decision measures what a decision costs, without an API server: livesched's beside kube-scheduler's, at its
// default sampling and on every node. The contenders take turns, each on a cluster of its own; see package decidebench.
package decision

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/livesched/livesched/hack/bench/report"
	"github.com/livesched/livesched/internal/decidebench"
	"github.com/livesched/livesched/internal/workload"
)

// The names of the values. Those of the first and the second decision about the pods of a class are livesched's only.
const (
	cpu, wall     = "cpu us/pod", "wall us/pod"
	bytes, allocs = "B/pod", "allocs/pod"
	first         = "first "
	second        = "second "
)

// warmUp is how many pods are decided about before anything is measured: more than twice as many as there are classes.
// Who keeps nothing of classes needs but a few.
const (
	warmUp     = 3 * workload.DefaultSeries
	warmUpFew  = 5
	everyClass = decidebench.Livesched // the contender that keeps something of classes
)

type options struct {
	nodes       []int
	kinds       []string
	contenders  []string
	pods, exact int
	rounds      int
	cold        int
}

// Command is the subcommand.
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "decision",
		Short: "What a decision costs, without an API server",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			r, err := report.Begin(cmd)
			if err != nil {
				return err
			}
			return errors.Join(o.run(cmd.Context(), r), report.Print(Tables(r)))
		},
	}
	flags := cmd.Flags()
	flags.IntSliceVar(&o.nodes, "nodes", []int{1000, 5000, 15000}, "nodes of the clusters")
	flags.StringSliceVar(&o.kinds, "kinds", workload.Kinds, "kinds of pods")
	flags.StringSliceVar(&o.contenders, "contenders",
		[]string{decidebench.Livesched, decidebench.KubeScheduler, decidebench.KubeSchedulerAll}, "who decides; there is "+decidebench.Scalar+", too")
	flags.IntVar(&o.pods, "pods", 300, "decisions in each round")
	flags.IntVar(&o.exact, "exact-pods", 15, "decisions in each round of those who ask every plugin about every node")
	flags.IntVar(&o.rounds, "rounds", 3, "rounds, in which the contenders take turns; medians are printed")
	flags.IntVar(&o.cold, "cold", 3, "in each round, how often livesched decides about a class of which it knows nothing, and once more about the same")
	report.AddFlags(cmd)
	return cmd
}

func (o *options) validate() error {
	return errors.Join(
		report.Positive("nodes", o.nodes...),
		report.Positive("pods", o.pods), report.Positive("exact-pods", o.exact), report.Positive("rounds", o.rounds),
		report.OneOf("kinds", o.kinds, workload.Kinds),
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
			fmt.Fprintf(os.Stderr, "%s pods, %d nodes: measured in %v\n", kind, nodes, time.Since(start).Round(time.Second/10))
		}
	}
	return nil
}

// measure has the contenders decide about the same pods, in turn.
func (o *options) measure(r *report.Report, pods workload.Pods) error {
	var all []*contender
	defer func() {
		for _, c := range all {
			c.cluster.Close()
		}
	}()
	for _, name := range o.contenders {
		c, err := newContender(name, pods)
		if err != nil {
			return err
		}
		all = append(all, c)
	}
	for range o.rounds {
		for _, c := range all {
			values, err := c.round(o)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			labels := map[string]string{"kind": pods.Kind, "nodes": strconv.Itoa(pods.Nodes), "contender": c.name}
			if err := r.Add(labels, values); err != nil {
				return err
			}
		}
	}
	return nil
}

// contender is one with its cluster, and the number of its next pod.
type contender struct {
	name    string
	cluster decidebench.Cluster
	pods    workload.Pods
	next    int
}

func newContender(name string, pods workload.Pods) (*contender, error) {
	cluster, err := decidebench.New(name)
	if err != nil {
		return nil, err
	}
	for i := range pods.Nodes {
		cluster.AddNode(workload.Node(i))
	}
	return &contender{name: name, cluster: cluster, pods: pods}, nil
}

// round measures decisions about classes that are known, and then some about classes that are not.
func (c *contender) round(o *options) (map[string]float64, error) {
	known, n := warmUpFew, o.pods
	switch c.name {
	case everyClass:
		known = warmUp
	case decidebench.Scalar, decidebench.KubeSchedulerAll:
		n = o.exact
	}
	if _, err := c.place(c.make(known)); err != nil {
		return nil, err
	}
	cost, err := c.place(c.make(n))
	if err != nil {
		return nil, err
	}
	values := perPod("", cost, n)
	if c.name == everyClass && o.cold > 0 {
		err = c.cold(values, o.cold)
	}
	return values, err
}

// make makes the next pods.
func (c *contender) make(n int) []*corev1.Pod {
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		pods[i] = workload.Admit(c.pods.Pod(c.next))
		c.next++
	}
	return pods
}

func (c *contender) place(pods []*corev1.Pod) (decidebench.Cost, error) {
	return decidebench.Measure(func() error {
		for _, pod := range pods {
			if _, err := c.cluster.Place(pod); err != nil {
				return fmt.Errorf("pod %s: %w", pod.Name, err)
			}
		}
		return nil
	})
}

// cold measures the first and the second decision about a class: the second finds what the first has worked out, and
// may itself have more to work out than those that follow.
func (c *contender) cold(values map[string]float64, times int) error {
	var firsts, seconds []map[string]float64
	for range times {
		if err := c.cluster.Reload(); err != nil {
			return err
		}
		pod := c.pods.Pod(c.next)
		again := pod.DeepCopy()
		again.Name += "-again"
		c.next++
		for _, turn := range []struct {
			name string
			pod  *corev1.Pod
			to   *[]map[string]float64
		}{{first, pod, &firsts}, {second, again, &seconds}} {
			cost, err := c.place([]*corev1.Pod{workload.Admit(turn.pod)})
			if err != nil {
				return err
			}
			*turn.to = append(*turn.to, perPod(turn.name, cost, 1))
		}
	}
	maps.Copy(values, medians(firsts))
	maps.Copy(values, medians(seconds))
	return nil
}

// perPod is a cost as values, whose names begin with a prefix.
func perPod(prefix string, cost decidebench.Cost, pods int) map[string]float64 {
	n := float64(pods)
	return map[string]float64{
		prefix + cpu: float64(cost.CPU.Nanoseconds()) / n / 1000, prefix + wall: float64(cost.Wall.Nanoseconds()) / n / 1000,
		prefix + bytes: float64(cost.Bytes) / n, prefix + allocs: float64(cost.Objects) / n,
	}
}

// medians returns the median of each value.
func medians(all []map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for _, name := range slices.Sorted(maps.Keys(all[0])) {
		var values []float64
		for _, one := range all {
			values = append(values, one[name])
		}
		out[name] = report.Quantile(values, 0.5)
	}
	return out
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Command throughput measures how many pods a second livesched and kube-scheduler bind, in turn, on one control plane
// on this machine: etcd and kube-apiserver with nodes that are objects only. A backlog of pending pods is made, then
// the scheduler is started; what counts is the time from the first bound pod to the last. Bind-only is the ceiling: a
// client that binds every pod to the next node without thinking. livesched runs twice: as it is by default, which scores
// every node, and with the share of nodes that kube-scheduler samples by default.
//
// With -reloads it measures instead what changing a profile costs a livesched that runs in this process; see reloads.go.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// options of one comparison.
type options struct {
	nodes, pods, runs int
	workload          string
	qps               int
	livesched         string

	// reloads, if above 0, is how often a profile is changed for each kind of pending pods, and length how long pods are
	// scheduled with and without a reload every second.
	reloads  int
	length   time.Duration
	profiles int
}

func main() {
	var o options
	flag.IntVar(&o.nodes, "nodes", 1000, "nodes of the cluster")
	flag.IntVar(&o.pods, "pods", 2000, "pods of the backlog")
	flag.IntVar(&o.runs, "runs", 3, "runs of each scheduler, in turn; medians are printed")
	flag.StringVar(&o.workload, "workload", "basic", "basic, spread or anti")
	flag.IntVar(&o.qps, "qps", 10000, "client QPS and burst of both schedulers")
	flag.StringVar(&o.livesched, "livesched", "bin/livesched", "the livesched to measure")
	flag.IntVar(&o.reloads, "reloads", 0, "measure reloads: how often a profile is changed, for each kind of pending pods")
	flag.DurationVar(&o.length, "length", time.Minute, "with -reloads: how long pods are scheduled, with and without a reload every second; 0 leaves this out")
	flag.IntVar(&o.profiles, "profiles", 20, "with -reloads: how many profiles there are, of which one is changed")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	measure := compare
	if o.reloads > 0 {
		measure = measureReloads
	}
	if err := measure(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "throughput:", err)
		os.Exit(1)
	}
}

// compare runs the contenders in turn and prints a line per run and the medians.
func compare(ctx context.Context, o options) (err error) {
	b, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	defer func() {
		if stopErr := b.close(); err == nil {
			err = stopErr
		}
	}()
	contenders := []contender{b.bindOnly(), b.kubeScheduler(), b.liveSched("livesched", 0), b.liveSched("livesched-samples", defaultSampling(o.nodes))}
	results := map[string][]result{}
	for run := range o.runs {
		for _, c := range contenders {
			r, err := b.measure(ctx, c)
			if err != nil {
				return fmt.Errorf("%s, run %d: %w", c.name, run+1, err)
			}
			fmt.Printf("run %d  %-17s %s\n", run+1, c.name, r)
			results[c.name] = append(results[c.name], r)
		}
	}
	printMedians(o, contenders, results)
	return nil
}

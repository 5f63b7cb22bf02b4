// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures livesched, and kube-scheduler where the two can be compared:
//
//	decision     the cost of a decision, without an API server
//	throughput   pods per second, end to end, on a real etcd and kube-apiserver
//	reload       the cost of changing a profile while pods wait and while they are scheduled
//	rollout      how often roll-outs are aborted, and how early, simulated
//	scale        large clusters, simulated in memory
//	fragmentation  how many GPUs are allocated when pods share them, without an API server
//	kubernetes   Kubernetes' own scheduler benchmark, end to end
//
// Each subcommand prints tables and writes its figures to a JSON file (see package report). Two
// more subcommands read such files:
//
//	table        prints the tables again, as Markdown for docs/compare/performance.md
//	plot         draws the charts of docs/
//
// A run that takes too long can be split into parts: flags select the nodes, the kinds of pods and
// the contenders, and --out names the file of the part. table and plot read the files of all parts.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/livesched/livesched/hack/bench/decision"
	"github.com/livesched/livesched/hack/bench/fragmentation"
	"github.com/livesched/livesched/hack/bench/kubernetes"
	"github.com/livesched/livesched/hack/bench/reload"
	"github.com/livesched/livesched/hack/bench/rollout"
	"github.com/livesched/livesched/hack/bench/scale"
	"github.com/livesched/livesched/hack/bench/throughput"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	klog.SetLogger(logr.Discard()) // errors are returned
	ctrl.SetLogger(logr.Discard())
	root := &cobra.Command{
		Use:           "bench",
		Short:         "Measure livesched",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	// A second Ctrl-C ends the program immediately, and the kernel then kills its children.
	context.AfterFunc(ctx, stop)
	root.AddCommand(decision.Command(), throughput.Command(), reload.Command(), rollout.Command(), scale.Command(),
		fragmentation.Command(), kubernetes.Command(), tableCommand(), plotCommand())
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

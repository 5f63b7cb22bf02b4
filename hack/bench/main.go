// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures livesched, beside kube-scheduler where there is something to compare:
//
//	decision     what a decision costs, without an API server
//	throughput   pods a second, end to end, on a real etcd and kube-apiserver
//	reload       what changing a profile costs while pods wait and while they are scheduled
//	scale        large clusters, simulated in memory
//
// Each prints tables and writes its figures to a JSON file (see package report); from such files
//
//	table        prints the tables again, as Markdown for docs/compare/performance.md
//	plot         draws the charts of docs/
//
// A run that takes too long can be done by part: flags say which nodes, kinds of pods and
// contenders, and --out where the part goes; table and plot take the files of all parts.
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
	"github.com/livesched/livesched/hack/bench/reload"
	"github.com/livesched/livesched/hack/bench/scale"
	"github.com/livesched/livesched/hack/bench/throughput"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	klog.SetLogger(logr.Discard()) // what goes wrong is returned
	ctrl.SetLogger(logr.Discard())
	root := &cobra.Command{
		Use:           "bench",
		Short:         "Measure livesched",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once, and the kernel its children
	root.AddCommand(decision.Command(), throughput.Command(), reload.Command(), scale.Command(), tableCommand(), plotCommand())
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

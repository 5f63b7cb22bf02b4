// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app implements the livesched command. The main program of a scheduler with out-of-tree
// plugins has three lines:
//
//	func main() {
//		os.Exit(app.Main(os.Args[1:], runtime.Registry{"MyPlugin": myplugin.New}))
//	}
//
// The package runtime is k8s.io/kubernetes/pkg/scheduler/framework/runtime. MyPlugin is any plugin
// that was written for kube-scheduler.
package app

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/spf13/pflag"
	k8sversion "k8s.io/component-base/version"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/livesched/livesched/internal/scheduler/framework"
	"github.com/livesched/livesched/internal/version"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// Main runs livesched with the given arguments (without the program's name) and plugins, and
// returns the exit code.
func Main(args []string, outOfTree framework.Registry) int {
	o := NewOptions()
	o.OutOfTree = outOfTree
	fs := pflag.NewFlagSet("livesched", pflag.ContinueOnError)
	fs.SortFlags = true
	o.AddFlags(fs)
	fs.Usage = func() {
		fmt.Printf("livesched is a Kubernetes scheduler whose profiles are custom resources.\n\nUsage:\n  livesched "+
			"[flags]\n\nFlags:\n%s", fs.FlagUsages())
	}
	switch err := fs.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		return exitOK
	case err != nil:
		return fail(exitUsage, err)
	case len(fs.Args()) > 0:
		return fail(exitUsage, fmt.Errorf("unexpected argument %q: livesched accepts only flags", fs.Arg(0)))
	case o.showVersion:
		fmt.Printf("livesched %s (Kubernetes %s)\n", version.Version, k8sversion.Get().GitVersion)
		return exitOK
	}
	if err := o.Validate(); err != nil {
		return fail(exitUsage, err)
	}
	return run(o)
}

// fail prints an error for the user and returns the exit code.
func fail(code int, err error) int {
	fmt.Fprintf(os.Stderr, "livesched: %v\n", err)
	return code
}

// run runs the manager until a signal arrives or the manager fails.
func run(o *Options) int {
	logger := o.logging.apply()
	requests := reportRequests()
	var running atomic.Pointer[Manager]
	ctx := untilSignal(logger, func() bool { return running.Load().started() })

	restConfig, err := ctrl.GetConfig()
	if err != nil {
		return fail(exitFailure,
			fmt.Errorf("finding the API server: %w; set --kubeconfig, or run livesched in a pod", err))
	}
	if err := o.requireLeaseNamespace(); err != nil {
		return fail(exitFailure, err)
	}
	if err := awaitAPI(ctx, logger, restConfig, o); err != nil {
		if ctx.Err() != nil {
			return exitOK
		}
		return fail(exitFailure, err)
	}
	mgr, err := NewManager(restConfig, o)
	if err != nil {
		return fail(exitFailure, err)
	}
	if err := mgr.Add(reportOn(requests, mgr.Scheduler.Report)); err != nil {
		return fail(exitFailure, err)
	}
	running.Store(mgr)
	logger.Info("Starting livesched", "version", version.Version)
	if err := mgr.Start(klog.NewContext(ctx, logger)); err != nil {
		logger.Error(err, "livesched stopped")
		return exitFailure
	}
	return exitOK
}

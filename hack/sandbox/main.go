// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Command sandbox implements `make quickstart`. It runs a Kubernetes control plane with simulated
// nodes on this machine, livesched as its scheduler, and a tour of livesched, which checks every
// step.
//
// The exit status is 0 if every step succeeded, 1 if one failed (standard error names it), 2 for
// invalid flags, and 130 if the tour was interrupted. In all cases it stops everything it started.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/livesched/livesched/test/controlplane/binaries"
	"github.com/livesched/livesched/test/controlplane/process"
)

// minNodes is the size of the smallest cluster in which packing and spreading differ clearly.
const minNodes = 6

func main() {
	cfg := sandboxConfig{}
	var exit bool
	flag.IntVar(&cfg.nodes, "nodes", 100, fmt.Sprintf("how many nodes the cluster has; at least %d", minNodes))
	flag.BoolVar(&exit, "exit", false, "end after the tour instead of waiting for Ctrl-C")
	flag.BoolVar(&cfg.bare, "bare", false, "start the cluster and livesched, without the tour")
	flag.StringVar(&cfg.dir, "dir", ".sandbox", "where data, credentials and logs go")
	flag.StringVar(&cfg.rootfs, "rootfs", "",
		"directory with a static livesched; it runs there as in a container, which needs bubblewrap")
	flag.Parse()
	if cfg.nodes < minNodes || flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "quickstart: NODES=%d: at least %d nodes are needed to tell packing from spreading\n",
			cfg.nodes, minNodes)
		os.Exit(2)
	}
	os.Exit(run(cfg, exit))
}

// run runs the sandbox and returns the exit status.
func run(cfg sandboxConfig, exit bool) int {
	ctrllog.SetLogger(logr.Discard()) // errors are returned
	ctx, stopSignals := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stopSignals()

	if err := cfg.complete(); err != nil {
		return fail(err)
	}
	unlock, err := lock(filepath.Join(cfg.dir, "lock"))
	if err != nil {
		return fail(err)
	}
	defer unlock()

	s := newSandbox(cfg, os.Stdout)
	err = s.tour(ctx)
	if err == nil && !exit {
		if cfg.bare {
			s.sayWhereItIs()
		} else {
			s.sayWhatToTry()
		}
		err = s.wait(ctx)
	}
	interrupted := ctx.Err() != nil
	// A second Ctrl-C ends the program immediately, and the kernel then kills its children.
	stopSignals()
	stopErr := s.stop()
	var died *process.ExitError
	switch {
	case errors.As(err, &died): // stopping it would only report again that it has ended
		return fail(err)
	case stopErr != nil:
		return fail(errors.Join(err, fmt.Errorf("stopping: %w", stopErr)))
	case err != nil && interrupted:
		fmt.Fprintln(os.Stderr, "quickstart: interrupted; everything was stopped")
		return 130
	case err != nil:
		return fail(err)
	default:
		return 0
	}
}

func fail(err error) int {
	fmt.Fprintf(os.Stderr, "quickstart: %v\n", err)
	return 1
}

// complete locates the repository and makes the paths absolute.
func (c *sandboxConfig) complete() (err error) {
	if c.root, err = binaries.FindRoot(); err != nil {
		return err
	}
	if c.dir, err = filepath.Abs(c.dir); err != nil {
		return err
	}
	programs := []string{"livesched", "kubectl-livesched"}
	if c.rootfs != "" {
		programs = programs[1:]
		if c.rootfs, err = filepath.Abs(c.rootfs); err != nil {
			return err
		}
		if _, err := exec.LookPath("bwrap"); err != nil {
			return fmt.Errorf("%w: install bubblewrap (Debian: apt install bubblewrap)", err)
		}
	}
	c.livesched = filepath.Join(c.root, "bin", "livesched")
	for _, program := range programs {
		if _, err := os.Stat(filepath.Join(c.root, "bin", program)); err != nil {
			return fmt.Errorf("there is no bin/%s (%w): run `make quickstart`, which builds it", program, err)
		}
	}
	return os.MkdirAll(c.dir, 0o755)
}

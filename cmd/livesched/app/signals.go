// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"

	"github.com/livesched/livesched/internal/scheduler/debugger"
)

// exitTimeout is the time after SIGTERM or SIGINT at which the process ends even if something
// hangs: less than the documented 10 seconds, more than the manager's own grace period. idleTimeout
// is the same for a process that has not started to schedule and has nothing to complete.
const (
	exitTimeout = 9 * time.Second
	idleTimeout = time.Second
)

// untilSignal returns a context that ends with the first SIGTERM or SIGINT. The process then ends
// within a timeout: a manager with an informer that never syncs does not stop, and a plugin can
// hang. A second signal ends the process immediately. started reports whether the process has
// started to schedule.
func untilSignal(logger logr.Logger, started func() bool) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		first := <-signals
		timeout := idleTimeout
		if started() {
			timeout = exitTimeout
		}
		logger.Info("Stopping", "signal", first.String())
		cancel()
		select {
		case second := <-signals:
			logger.Info("Received a second signal; exiting", "signal", second.String())
		case <-time.After(timeout):
			logger.Info("Not all parts have stopped; exiting", "timeout", timeout)
		}
		os.Exit(exitFailure)
	}()
	return ctx
}

// reportRequests returns a channel of the signals that request a report. Without a receiver, such a
// signal would end the process, so call it before anything that takes time. Requests during a
// report count as one.
func reportRequests() <-chan os.Signal {
	requests := make(chan os.Signal, 1)
	if len(debugger.Signals) > 0 { // without arguments, Notify relays all signals
		signal.Notify(requests, debugger.Signals...)
	}
	return requests
}

// reportOn calls report for each request until ctx ends.
func reportOn(requests <-chan os.Signal, report func(context.Context)) everywhere {
	return func(ctx context.Context) error {
		for {
			select {
			case <-requests:
				report(ctx)
			case <-ctx.Done():
				return nil
			}
		}
	}
}

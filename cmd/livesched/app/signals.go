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

// exitTimeout is how long after SIGTERM or SIGINT the process ends, whatever hangs: less than the
// 10 seconds in which it promises to, more than the manager's own grace period. idleTimeout is the
// same for a process that has not begun to schedule, so that nothing needs to be brought to an end.
const (
	exitTimeout = 9 * time.Second
	idleTimeout = time.Second
)

// untilTold returns a context that ends with the first SIGTERM or SIGINT. Then the process ends,
// whatever its parts do: a manager with an informer that never syncs does not end when told to, and
// a plugin can hang. With a second signal it ends at once.
func untilTold(logger logr.Logger, begun func() bool) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	told := make(chan os.Signal, 2)
	signal.Notify(told, os.Interrupt, syscall.SIGTERM)
	go func() {
		first := <-told
		timeout := idleTimeout
		if begun() {
			timeout = exitTimeout
		}
		logger.Info("Stopping", "signal", first.String())
		cancel()
		select {
		case second := <-told:
			logger.Info("Told to stop a second time; exiting", "signal", second.String())
		case <-time.After(timeout):
			logger.Info("Not all parts have ended; exiting", "timeout", timeout)
		}
		os.Exit(exitFailure)
	}()
	return ctx
}

// reportRequests receives the signals that ask for a report. Without anybody who listens, such a
// signal would end the process: so this comes before anything that takes time. Requests that come
// while a report is made are one.
func reportRequests() <-chan os.Signal {
	requests := make(chan os.Signal, 1)
	if len(debugger.Signals) > 0 { // none would mean all
		signal.Notify(requests, debugger.Signals...)
	}
	return requests
}

// reportOn has reports made on request, until ctx ends.
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

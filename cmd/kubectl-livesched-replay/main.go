// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-livesched-replay is `kubectl livesched replay`: kubectl finds it in the PATH, and
// kubectl-livesched runs it. It is a program of its own because it contains the scheduler.
package main

import (
	"context"
	"os"

	"github.com/livesched/livesched/cmd/kubectl-livesched/app"
	"github.com/livesched/livesched/internal/scheduler/capture"
	"github.com/livesched/livesched/internal/scheduler/replay"
)

func main() {
	open := func(ctx context.Context, snapshot *capture.Snapshot) (app.Replay, error) {
		return replay.Open(ctx, snapshot)
	}
	os.Exit(app.Main(append([]string{"replay"}, os.Args[1:]...), os.Stdin, os.Stdout, os.Stderr, open))
}

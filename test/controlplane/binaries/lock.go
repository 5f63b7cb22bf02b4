// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package binaries

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lockRetry is the time between attempts to take a lock that another process holds.
const lockRetry = 250 * time.Millisecond

// lock takes an exclusive lock on a file and waits for its current holder. The kernel releases the
// lock when its holder dies.
func lock(ctx context.Context, cfg Config, path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("locking the control plane's build: %w", err)
	}
	retry := time.NewTicker(lockRetry)
	defer retry.Stop()
	for said := false; ; {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil // closing releases the lock
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), file.Close())
		}
		if !said {
			fmt.Fprintln(cfg.Progress, "waiting for another process that builds the control plane")
			said = true
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), file.Close())
		case <-retry.C:
		}
	}
}

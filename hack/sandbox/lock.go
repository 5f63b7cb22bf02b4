// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// lock makes this process the only user of a sandbox's directory. The kernel releases the lock when
// the process ends for any reason.
func lock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("locking the sandbox: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		holder, readErr := io.ReadAll(file)
		pid := strings.TrimSpace(string(holder))
		return nil, errors.Join(fmt.Errorf("another quickstart uses %s already: end it first, with Ctrl-C where it "+
			"runs or `kill %s`", filepath.Dir(path), pid), readErr, file.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking the sandbox: %w", err), file.Close())
	}
	pid := strconv.Itoa(os.Getpid()) + "\n"
	if err := errors.Join(file.Truncate(0), writeString(file, pid)); err != nil {
		return nil, errors.Join(fmt.Errorf("locking the sandbox: %w", err), file.Close())
	}
	return func() { _ = file.Close() }, nil // closing releases the lock
}

func writeString(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

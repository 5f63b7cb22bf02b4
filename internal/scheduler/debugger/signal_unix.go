// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package debugger

import (
	"os"
	"syscall"
)

// Signals are the signals that request a report.
var Signals = []os.Signal{syscall.SIGUSR2}

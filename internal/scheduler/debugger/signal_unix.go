// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package debugger

import (
	"os"
	"syscall"
)

// Signals ask for a report.
var Signals = []os.Signal{syscall.SIGUSR2}

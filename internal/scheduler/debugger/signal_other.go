// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package debugger

import "os"

// Signals are the signals that request a report. There are none on this system.
var Signals []os.Signal

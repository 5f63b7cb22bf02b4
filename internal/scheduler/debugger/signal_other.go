// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package debugger

import "os"

// Signals ask for a report. There is none on this system.
var Signals []os.Signal

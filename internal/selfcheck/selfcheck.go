// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package selfcheck lets data structures compare themselves with a recount after their operations.
// Tests enable it by importing test/leaks. A livesched that is not a test never checks anything.
package selfcheck

import (
	"fmt"
	"os"
)

// most is the largest number of objects that are recounted, so that tests stay fast.
const most = 300

// enabled is written while no other goroutine uses what is checked.
var enabled bool

// Enable turns the checks on or off. Call it while packages are initialized, or in a test that
// counts allocations.
func Enable(on bool) { enabled = on }

// Wanted reports whether a structure with a number of objects compares itself with a recount.
func Wanted(objects int) bool { return enabled && objects <= most }

// Report ends the process if err is the error of a check. A panic could be recovered.
func Report(err error) {
	if err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "self-check: %v\n", err)
		os.Exit(3)
	}
}

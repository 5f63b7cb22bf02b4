// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package decidebench

import (
	"runtime"
	"syscall"
	"time"
)

// Cost is what something has taken of this process: all goroutines together.
type Cost struct {
	Wall, CPU      time.Duration
	Bytes, Objects uint64 // allocated
}

// Measure runs f and returns what that took. Who has made much garbage before should collect it, or
// its collection may become part of the cost.
func Measure(f func() error) (Cost, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, start := CPUTime(), time.Now()
	err := f()
	cost := Cost{Wall: time.Since(start), CPU: CPUTime() - cpu}
	runtime.ReadMemStats(&after)
	cost.Bytes, cost.Objects = after.TotalAlloc-before.TotalAlloc, after.Mallocs-before.Mallocs
	return cost, err
}

// CPUTime is what this process has used so far. On a machine that others use it says more than the
// clock.
func CPUTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err) // it cannot fail with valid arguments
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package decidebench

import (
	"runtime"
	"syscall"
	"time"
)

// Cost is the resource usage of this process, by all goroutines together.
type Cost struct {
	Wall, CPU      time.Duration
	Bytes, Objects uint64 // allocated
}

// Measure runs f and returns its cost. A caller that has made much garbage should collect it first:
// otherwise its collection may become part of the cost.
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

// CPUTime returns the CPU time of this process so far. On a shared machine it is more meaningful
// than elapsed time.
func CPUTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err) // Getrusage cannot fail with valid arguments
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

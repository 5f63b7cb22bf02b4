// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"time"

	"github.com/prometheus/procfs"
)

// Usage is the resource usage of a running process so far.
type Usage struct {
	CPU time.Duration
	// PeakRSS is the peak resident memory in bytes.
	PeakRSS int64
}

// UsageOf reads the usage of a process from /proc, which only Linux has. The CPU time is that of
// all threads, user and system.
func UsageOf(pid int) (Usage, error) {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return Usage{}, err
	}
	stat, err := process.Stat()
	if err != nil {
		return Usage{}, err
	}
	status, err := process.NewStatus()
	if err != nil {
		return Usage{}, err
	}
	if status.VmHWM == 0 {
		return Usage{}, fmt.Errorf("process %d has no peak memory: it has ended", pid)
	}
	return Usage{CPU: time.Duration(stat.CPUTime() * float64(time.Second)), PeakRSS: int64(status.VmHWM)}, nil
}

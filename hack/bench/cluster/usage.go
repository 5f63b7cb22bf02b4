// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"time"
)

// Usage is the resource usage of a running process so far.
type Usage struct {
	CPU time.Duration
	// PeakRSS is the peak resident memory in bytes.
	PeakRSS int64
}

// UsageOf reads the usage of a process from /proc, which only Linux has.
func UsageOf(pid int) (Usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Usage{}, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Usage{}, err
	}
	cpu, err := cpuOf(stat)
	if err != nil {
		return Usage{}, fmt.Errorf("process %d: %w", pid, err)
	}
	peak, err := peakOf(status)
	if err != nil {
		return Usage{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return Usage{CPU: cpu, PeakRSS: peak}, nil
}

// cpuOf reads the user and system CPU time of all threads from /proc/PID/stat.
func cpuOf(stat []byte) (time.Duration, error) {
	const ticksPerSecond = 100 // USER_HZ, which is 100 on every Linux that Go runs on
	// The fields after the command's name, which is in parentheses and may contain spaces. utime
	// and stime are fields 14 and 15.
	end := bytes.LastIndexByte(stat, ')')
	fields := bytes.Fields(stat[end+1:])
	if end < 0 || len(fields) < 13 {
		return 0, fmt.Errorf("stat is %q", stat)
	}
	var ticks int
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(string(field))
		if err != nil {
			return 0, fmt.Errorf("stat is %q: %w", stat, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}

var peakLine = regexp.MustCompile(`(?m)^VmHWM:\s*(\d+) kB$`)

// peakOf reads the peak memory in bytes from /proc/PID/status.
func peakOf(status []byte) (int64, error) {
	found := peakLine.FindSubmatch(status)
	if found == nil {
		return 0, fmt.Errorf("status has no VmHWM: %q", status)
	}
	kib, err := strconv.ParseInt(string(found[1]), 10, 64)
	return kib << 10, err
}

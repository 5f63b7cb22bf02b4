// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
)

// Machine describes the machine of the measurements.
type Machine struct {
	CPU       string `json:"cpu"` // the model's name, if the system reports it
	CPUs      int    `json:"cpus"`
	MemoryGiB int    `json:"memoryGiB"` // 0 if the system does not report it
	OS        string `json:"os"`
	Go        string `json:"go"`
}

var (
	cpuModel    = regexp.MustCompile(`(?m)^model name\s*:\s*(.+)$`)
	memoryTotal = regexp.MustCompile(`(?m)^MemTotal:\s*(\d+) kB$`)
)

func thisMachine() Machine {
	m := Machine{CPUs: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version()}
	if found := firstMatch("/proc/cpuinfo", cpuModel); found != "" {
		m.CPU = strings.TrimSpace(found)
	}
	kib, _ := strconv.Atoi(firstMatch("/proc/meminfo", memoryTotal)) // "" is 0
	m.MemoryGiB = (kib + 1<<19) >> 20
	return m
}

// firstMatch returns the first group of the first match in a file, or "" if there is none.
func firstMatch(file string, pattern *regexp.Regexp) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	found := pattern.FindSubmatch(text)
	if found == nil {
		return ""
	}
	return string(found[1])
}

// commit returns the commit of the repository in the working directory, or "unknown" without one.
func commit() string {
	hash, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	changed, err := exec.Command("git", "status", "--porcelain", "--untracked-files=no").Output()
	if err != nil || len(changed) > 0 {
		return strings.TrimSpace(string(hash)) + "-dirty"
	}
	return strings.TrimSpace(string(hash))
}

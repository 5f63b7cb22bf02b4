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

// Machine is what the figures are from.
type Machine struct {
	CPU       string `json:"cpu"` // the model's name, where the system tells it
	CPUs      int    `json:"cpus"`
	MemoryGiB int    `json:"memoryGiB"` // 0 where the system does not tell
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

// firstMatch is the first group of what matches in a file, "" if there is no such file.
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

// commit is that of the repository in the working directory; "unknown" without one.
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

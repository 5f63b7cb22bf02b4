// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The scheduler and the registry of in-tree plugins belong into kubectl-livesched-replay: they are
// large, and everyone who installs the plugin downloads it.
func TestThePluginDoesNotContainTheScheduler(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(out))
	if len(packages) < 500 {
		t.Fatalf("go list has only %d packages", len(packages))
	}
	const own, upstream = "github.com/livesched/livesched/internal/", "k8s.io/kubernetes/pkg/scheduler"
	for _, unwanted := range []string{
		own + "informers", own + "scheduler", own + "scheduler/algorithm", own + "scheduler/fork",
		own + "scheduler/framework",
		own + "scheduler/plugins", own + "scheduler/profile", own + "scheduler/queue", own + "scheduler/replay",
		upstream, upstream + "/framework/plugins", upstream + "/framework/runtime",
	} {
		if slices.Contains(packages, unwanted) {
			t.Errorf("kubectl-livesched contains %s", unwanted)
		}
	}
}

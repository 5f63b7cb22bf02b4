// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"github.com/pmezard/go-difflib/difflib"
)

// section is a part of the report.
type section struct {
	title string
	// why is what livesched has to do with a change.
	why string
	// lines returns what is compared, in an order that does not depend on chance.
	lines func(*release) ([]string, error)
}

var sections = []section{
	{"Default plugins", "Their order and weights decide. Compare internal/scheduler/resolve and plugins.", defaultPlugins},
	{"Feature gates of the scheduler", "Name those that are refused in cmd/livesched/app/options.go.", featureGates},
	{"Interfaces for plugins", "k8s.io/kube-scheduler: what out-of-tree plugins use.", interfaces},
	{"Cluster events", "What wakes pods: internal/scheduler/eventhandlers and profile/hints.go.", clusterEvents},
	{"Metrics", "Serve them under the same names, or say why not: internal/scheduler/metrics.", metrics},
	{"RBAC of system:kube-scheduler", "Compare internal/scheduler/rbac.go.", rbacRules},
	{"Workloads of scheduler_perf", "Thresholds to compare with.", perfWorkloads},
	{"Integration cases", "Write new cases anew under test/e2e, or say why not.", integrationCases},
}

// print writes the lines that were removed and added, in the form of a diff without context.
func (s section) print(out io.Writer, before, after *release) error {
	was, err := s.lines(before)
	if err != nil {
		return err
	}
	is, err := s.lines(after)
	if err != nil {
		return err
	}
	if len(was) == 0 || len(is) == 0 {
		return fmt.Errorf("%d lines before and %d after: the sources have an unexpected form", len(was), len(is))
	}
	fmt.Fprintf(out, "\n## %s\n\n%s\n\n", s.title, s.why)
	changed := changes(was, is)
	if len(changed) == 0 {
		fmt.Fprintln(out, "No change.")
		return nil
	}
	fmt.Fprintln(out, "```diff")
	for _, line := range changed {
		fmt.Fprintln(out, line)
	}
	fmt.Fprintln(out, "```")
	return nil
}

// changes returns the lines that differ, those of before with a minus and those of after with a
// plus.
func changes(before, after []string) (changed []string) {
	for _, op := range difflib.NewMatcherWithJunk(before, after, false, nil).GetOpCodes() {
		if op.Tag == 'e' {
			continue
		}
		for _, line := range before[op.I1:op.I2] {
			changed = append(changed, "- "+line)
		}
		for _, line := range after[op.J1:op.J2] {
			changed = append(changed, "+ "+line)
		}
	}
	return changed
}

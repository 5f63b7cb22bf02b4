// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
)

// section is a part of the report.
type section struct {
	title string
	// why is what livesched has to do with a change.
	why string
	// lines returns what is compared, in an order that does not depend on chance.
	lines func(*release) ([]string, error)
	// ordered means that a line that has moved has changed, too.
	ordered bool
}

var sections = []section{
	{"Go and modules", "What go.mod of Kubernetes requires. Raise go.mod of livesched alike.", requirements, false},
	{"Default plugins", "Their order and weights decide. Compare internal/scheduler/resolve and plugins.",
		defaultPlugins, true},
	{"Registry of plugins", "What is new here and not out of the question belongs to internal/scheduler/plugins.",
		registeredPlugins, false},
	{"Extension points", "Run each in internal/scheduler/framework, or refuse the feature gate that needs it.",
		extensionPoints, false},
	{"Feature gates of the scheduler", "Name those that are refused in cmd/livesched/app/options.go.",
		featureGates, false},
	{"Interfaces for plugins", "k8s.io/kube-scheduler: what out-of-tree plugins and extenders use.", interfaces, false},
	{"API types", "What decisions may depend on: internal/scheduler/podfields and podgroup.", apiTypes, false},
	{"Cluster events", "What wakes pods: internal/scheduler/eventhandlers and profile/hints.go.", clusterEvents, false},
	{"Messages", "What users read on pods. livesched makes some itself, such as those of preemption.", messages, false},
	{"Metrics", "Serve them under the same names, or say why not: internal/scheduler/metrics.", metrics, false},
	{"RBAC of system:kube-scheduler", "Compare internal/scheduler/rbac.go.", rbacRules, false},
	{"Workloads of scheduler_perf", "Thresholds to compare with.", perfWorkloads, false},
	{"Integration cases", "Write new cases anew under test/e2e, or say why not.", integrationCases, false},
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
	changed := changesByName(was, is)
	if s.ordered {
		changed = changes(was, is)
	}
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

// changesByName returns the lines that only one of two lists has, in the order of what they are
// about, so that the two lines of something that has changed are next to each other.
func changesByName(before, after []string) (changed []string) {
	count := map[string]int{}
	for _, line := range before {
		count[line]--
	}
	for _, line := range after {
		count[line]++
	}
	for line, n := range count {
		sign := "+ "
		if n < 0 {
			sign, n = "- ", -n
		}
		for range n {
			changed = append(changed, sign+line)
		}
	}
	slices.SortFunc(changed, func(a, b string) int {
		// Of two signs, "+" is the lesser.
		return cmp.Or(cmp.Compare(subject(a[2:]), subject(b[2:])), cmp.Compare(b[:1], a[:1]), cmp.Compare(a, b))
	})
	return changed
}

// subject returns what a line is about: the name of a gate, a method or a metric.
func subject(line string) string {
	if end := strings.IndexAny(line, " ("); end > 0 {
		return line[:end]
	}
	return line
}

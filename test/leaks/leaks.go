// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leaks fails tests that leave goroutines behind, and turns on the scheduler's self-checks.
package leaks

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/livesched/livesched/internal/selfcheck"
)

// Tests check the structures of the scheduler against a recount, and benchmarks do not.
func init() {
	selfcheck.Enable(!slices.ContainsFunc(os.Args,
		func(arg string) bool { return strings.HasPrefix(arg, "-test.bench") }))
}

// patience is the time in which goroutines may end after a request to stop. kube-scheduler's metric
// recorders check once a second whether to end, which is longer than goleak waits by itself. Find
// waits only while goroutines are left.
const patience = 20 * time.Second

// Main runs the tests of a package and exits with the result of [testing.M.Run], or with 1 if the
// tests passed but left goroutines.
func Main(m *testing.M, options ...goleak.Option) {
	code := m.Run()
	if code == 0 {
		if err := Find(options...); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// Verify fails the test if goroutines are left; see [Find].
func Verify(t testing.TB, options ...goleak.Option) {
	t.Helper()
	if err := Find(options...); err != nil {
		t.Error(err)
	}
}

// Find returns an error with the stacks of the goroutines that are left after 20 seconds. It
// ignores those of the options and klog's flush daemon, which starts when klog is imported.
func Find(options ...goleak.Option) error { return findFor(patience, options) }

func findFor(patience time.Duration, options []goleak.Option) error {
	options = append([]goleak.Option{goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1")}, options...)
	deadline := time.Now().Add(patience)
	for {
		err := goleak.Find(options...) // tries for half a second
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

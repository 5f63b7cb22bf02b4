// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package leaks

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { Main(m) }

func TestAGoroutineThatEndsLateIsNoLeak(t *testing.T) {
	before, end := goleak.IgnoreCurrent(), make(chan struct{})
	go func() { <-end }()
	if err := goleak.Find(before); err == nil {
		t.Fatal("the goroutine has ended by itself")
	}
	time.AfterFunc(time.Second, func() { close(end) })
	if err := Find(before); err != nil {
		t.Error(err)
	}
}

func TestAGoroutineThatStaysIsALeakAndIsNamed(t *testing.T) {
	before, end := goleak.IgnoreCurrent(), make(chan struct{})
	defer close(end)
	go stay(end)
	if err := findFor(time.Millisecond, []goleak.Option{before}); err == nil ||
		!strings.Contains(err.Error(), "leaks.stay") {
		t.Errorf("got %v", err)
	}
}

func stay(end <-chan struct{}) { <-end }

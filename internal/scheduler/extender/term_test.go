// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extender_test

import (
	"errors"
	"testing"
	"time"

	"github.com/livesched/livesched/internal/lease"
	"github.com/livesched/livesched/internal/scheduler/extender"
)

func TestAnExtenderIsNotCalledAfterTheTerm(t *testing.T) {
	s := serve(t, "null")
	term := lease.NewTerm(time.Hour)
	cfg := everything(s.URL)
	e, err := extender.New(&cfg, extender.Policy{Name: "default"}, extender.NewBreakers(nil), term)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for _, step := range []struct {
		name  string
		begin func()
		over  bool
	}{
		{"the replica follows", func() {}, false},
		{"it leads", func() { term.Renew(time.Now()) }, false},
		{"it was stopped", func() { term.Renew(time.Now().Add(-time.Hour)) }, true},
		{"it leads on, and the circuits are closed", func() { term.Renew(time.Now()) }, false},
		{"it has lost the lease", term.End, true},
	} {
		step.begin()
		for verb, call := range calls(e) {
			for range 6 { // more failures than open a circuit
				if err := call(); errors.Is(err, lease.ErrOver) != step.over {
					t.Errorf("%s: %s: %v", step.name, verb, err)
				}
				if paths, _ := s.sent(); (len(paths) == 0) != step.over {
					t.Errorf("%s: %s: it got %v", step.name, verb, paths)
				}
			}
		}
	}
}

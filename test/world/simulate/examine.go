// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/livesched/livesched/test/world/runner"
)

// examine looks for the smallest plan that fails as a world did. It returns an error that says what
// is wrong with the world. What it finds is in files of the directory, named after the world.
func (s *simulation) examine(ctx context.Context, failed *world) error {
	source := failed.source
	violation := fmt.Errorf("%s: %s", source.Name(), failed.Error)
	fmt.Printf("\n%v\nplan: %s\n", violation, failed.Plan)
	if failed.Over() {
		fmt.Printf("%s has what happened\n", s.file(source, ".txt"))
	} else {
		fmt.Printf("%s\n(%s has the whole output)\n", failed.Excerpt(), s.file(source, ".out"))
	}
	if err := os.WriteFile(s.file(source, ".out"), []byte(failed.Output), 0o644); err != nil {
		return err
	}
	smallest, err := parsePlan(failed.Plan)
	if err != nil {
		return err
	}
	switch smaller, err := s.shrink(ctx, source.Seed, smallest, runner.Kind(failed.Error)); {
	case err != nil:
		return err
	case smaller == nil:
		fmt.Println("its plan in a file does not fail in the same way: it cannot be shrunk")
	default:
		source.Plan = s.file(source, "-smallest.json")
		if err := os.WriteFile(source.Plan, []byte(smaller.String()+"\n"), 0o644); err != nil {
			return err
		}
		smallest = smaller
	}
	repeated := s.file(failed.source, "-smallest.txt")
	outcome, err := s.programs.Run(ctx, source, repeated)
	if err != nil {
		return err
	}
	fmt.Printf("the smallest plan that was found: %v\nwhat is wrong: %s\n", smallest,
		cmp.Or(outcome.Error, "nothing: it does not repeat"))
	if !outcome.Over() {
		fmt.Println(outcome.Excerpt())
	}
	fmt.Printf("to repeat it: %s\n", s.programs.Command(source, repeated))
	return violation
}

// shrink returns the smallest plan that it finds whose world fails in the same way as that of a
// plan. It returns nil if not even that plan does: what a process does before a world can make a
// difference to it, such as reading a plan.
func (s *simulation) shrink(ctx context.Context, seed uint64, whole plan, kind string) (plan, error) {
	dir, err := os.MkdirTemp("", "plans")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	end := time.Now().Add(s.shrinking)
	tried := 0
	fails := func(plans []plan) []bool {
		failed := make([]bool, len(plans))
		if err != nil || time.Now().After(end) {
			return failed
		}
		errs := make([]error, len(plans))
		var tries sync.WaitGroup
		for i, p := range plans {
			file := filepath.Join(dir, fmt.Sprint(i))
			tries.Go(func() {
				if errs[i] = os.WriteFile(file, []byte(p.String()), 0o600); errs[i] != nil {
					return
				}
				var outcome *runner.Outcome
				if outcome, errs[i] = s.programs.Run(ctx, runner.Source{Seed: seed, Plan: file}, ""); errs[i] == nil {
					failed[i] = outcome.Error != "" && runner.Kind(outcome.Error) == kind
				}
			})
		}
		tries.Wait()
		err = errors.Join(errs...)
		tried += len(plans)
		if i := slices.Index(failed, true); i >= 0 {
			fmt.Printf("fails, too, after %d tries: %v\n", tried, plans[i])
		}
		return failed
	}
	if s.tries <= 0 {
		return whole, nil
	}
	if !fails([]plan{whole})[0] {
		return nil, err
	}
	return shrink(whole, s.tries-1, s.parallel, fails), err
}

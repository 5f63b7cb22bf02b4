// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/livesched/livesched/test/world/runner"
)

// examine looks for the smallest plan that fails as a world did. It returns an error that says what
// is wrong with the world. What it finds is in files of the directory, named after the seed.
func (s *simulation) examine(ctx context.Context, failed *world) error {
	file := func(extension string) string { return filepath.Join(s.dir, fmt.Sprint(failed.seed, extension)) }
	violation := fmt.Errorf("seed %d: %s", failed.seed, failed.Error)
	fmt.Printf("\nseed %d: %s\nplan: %s\n", failed.seed, failed.Error, failed.Plan)
	if !failed.Over() {
		fmt.Printf("%s\n(the whole output is in %s)\n", failed.Excerpt(), file(".out"))
	}
	if err := os.WriteFile(file(".out"), []byte(failed.Output), 0o644); err != nil {
		return err
	}
	whole, err := parsePlan(failed.Plan)
	if err != nil {
		return err
	}
	smallest, err := s.shrink(ctx, whole, runner.Kind(failed.Error))
	if err != nil {
		return err
	}
	if err := os.WriteFile(file(".json"), []byte(smallest.String()+"\n"), 0o644); err != nil {
		return err
	}
	outcome, err := s.programs.Plan(ctx, file(".json"), file(".txt"))
	if err != nil {
		return err
	}
	fmt.Printf("the smallest plan: %v\nwhich comes to: %s\n", smallest, outcome.Error)
	if outcome.Error == "" {
		fmt.Println("nothing is wrong with that world this time: it does not repeat")
	}
	if !outcome.Over() {
		fmt.Println(outcome.Excerpt())
	}
	fmt.Printf("to repeat it: %s\n", s.programs.Command(failed.seed, file(".json"), file(".txt")))
	return violation
}

// shrink returns the smallest plan that it finds whose world fails in the same way as that of a plan.
func (s *simulation) shrink(ctx context.Context, whole plan, kind string) (plan, error) {
	dir, err := os.MkdirTemp("", "plans")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
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
				if outcome, errs[i] = s.programs.Plan(ctx, file, ""); errs[i] == nil {
					failed[i] = outcome.Error != "" && runner.Kind(outcome.Error) == kind
				}
			})
		}
		tries.Wait()
		err = errors.Join(errs...)
		for i, p := range plans {
			if tried++; failed[i] {
				fmt.Printf("try %d fails, too: %v\n", tried, p)
			}
		}
		return failed
	}
	if s.tries > 0 && !fails([]plan{whole})[0] && err == nil {
		fmt.Println("the world does not fail again in the same way: there is nothing to make smaller")
		return whole, nil
	}
	return shrink(whole, s.tries-1, s.parallel, fails), err
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// mutants makes mistakes in livesched, one at a time, and simulates clusters until one finds it.
//
//	mutants [-only NAME] [-worlds N] REPLAY
//
// REPLAY is the path of program replay. The working directory is that of the module test/world. Its
// directory plans has the plans of clusters that were made for a mistake, or that found it. They
// come first.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/livesched/livesched/test/world/runner"
)

func main() {
	only := flag.String("only", "", "regular expression for the names of mutants")
	worlds := flag.Int("worlds", 20, "how many worlds may try to find a mutant")
	first := flag.Uint64("seed", 1, "seed of the first world")
	parallel := flag.Int("parallel", runtime.NumCPU(), "how many mutants are tried at a time")
	flag.Parse()
	if err := run(*only, *worlds, *first, *parallel, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(only string, worlds int, first uint64, parallel int, replay string) error {
	selected, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	fmt.Print("| mutant | worlds | seconds | found by |\n|---|---|---|---|\n")
	var missed atomic.Int32
	var tries errgroup.Group
	tries.SetLimit(parallel)
	for i := range mutants {
		m := &mutants[i]
		if !selected.MatchString(m.name) {
			continue
		}
		tries.Go(func() error {
			found, err := m.try(worlds, first, replay)
			if err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
			if !found {
				missed.Add(1)
			}
			return nil
		})
	}
	if err := tries.Wait(); err != nil {
		return err
	}
	if n := missed.Load(); n > 0 {
		return fmt.Errorf("%d mutants were not found", n)
	}
	return nil
}

// try makes a mistake, and prints a line about the worlds that looked for it.
func (m *mutant) try(worlds int, first uint64, replay string) (bool, error) {
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return false, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program, err := m.build(dir)
	if err != nil {
		return false, err
	}
	sources, err := m.sources(dir, worlds, first)
	if err != nil {
		return false, err
	}
	began := time.Now()
	programs := &runner.Programs{Replay: replay, Test: program, Timeout: 5 * time.Minute}
	number, violation, err := search(programs, sources, m.plan())
	if err != nil {
		return false, err
	}
	line, _, _ := strings.Cut(cmp.Or(violation, "**not found**"), ";") // without the state of the queues
	fmt.Printf("| %s | %d | %.0f | %s |\n", m.name, number, time.Since(began).Seconds(), line)
	return violation != "", nil
}

// build returns the path of the tests with the mutant in them.
func (m *mutant) build(dir string) (string, error) {
	original, err := filepath.Abs(filepath.Join("..", "..", m.file))
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), m.before); n != 1 {
		return "", fmt.Errorf("the text occurs %d times in %s", n, m.file)
	}
	changed := filepath.Join(dir, "changed.go")
	if err := os.WriteFile(changed, []byte(strings.Replace(string(text), m.before, m.after, 1)), 0o600); err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{original: changed}})
	if err != nil {
		return "", err
	}
	file, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "world.test")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return "", err
	}
	build := exec.Command("go", "test", "-overlay", file, "-ldflags=-checklinkname=0", "-c", "-o", program, ".")
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, output)
	}
	return program, nil
}

// plan returns the file with the plan of the world that found the mutant last, or that was made for
// it.
func (m *mutant) plan() string {
	return filepath.Join("plans", strings.NewReplacer(" ", "-", ",", "").Replace(m.name)+".json")
}

// sources returns where the plans of the worlds come from: the mutant's own plan, if
// there is one, with its seed and then with others, and the plans of seeds.
func (m *mutant) sources(dir string, worlds int, first uint64) (sources []runner.Source, err error) {
	text, err := os.ReadFile(m.plan())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err == nil {
		known := runner.Source{Plan: m.plan()}
		plan := map[string]any{}
		if err := errors.Join(json.Unmarshal(text, &known), json.Unmarshal(text, &plan)); err != nil {
			return nil, err
		}
		sources = append(sources, known)
		for i := range worlds / 2 {
			again := runner.Source{Seed: first + uint64(i), Plan: filepath.Join(dir, fmt.Sprint("plan", i))}
			plan["Seed"] = again.Seed
			text, err := json.Marshal(plan)
			if err := errors.Join(err, os.WriteFile(again.Plan, text, 0o600)); err != nil {
				return nil, err
			}
			sources = append(sources, again)
		}
	}
	for i := range worlds - len(sources) {
		sources = append(sources, runner.Source{Seed: first + uint64(i)})
	}
	return sources, nil
}

// search runs worlds until one finds something, and keeps its plan. It returns how many there were,
// and what was found.
func search(programs *runner.Programs, sources []runner.Source, plan string) (number int, found string, err error) {
	for i, source := range sources {
		outcome, err := programs.Run(context.Background(), source, "")
		if err != nil {
			return i + 1, "", err
		}
		if outcome.Error != "" {
			err := os.MkdirAll(filepath.Dir(plan), 0o755)
			return i + 1, outcome.Error, errors.Join(err, os.WriteFile(plan, append(outcome.Plan, '\n'), 0o644))
		}
	}
	return len(sources), "", nil
}

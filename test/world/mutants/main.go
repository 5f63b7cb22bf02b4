// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// mutants makes mistakes in livesched, one at a time, and simulates clusters until one finds it.
//
//	mutants [-only NAME] [-worlds N] REPLAY
//
// REPLAY is the path of program replay. The working directory is that of the module test/world. Its
// directory plans has the plans of clusters that have found a mistake. They come first.
package main

import (
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
	"strings"
	"time"

	"github.com/livesched/livesched/test/world/runner"
)

func main() {
	only := flag.String("only", "", "regular expression for the names of mutants")
	worlds := flag.Int("worlds", 20, "how many worlds may try to find a mutant")
	first := flag.Uint64("seed", 1, "seed of the first world")
	flag.Parse()
	if err := run(*only, *worlds, *first, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(only string, worlds int, first uint64, replay string) error {
	selected, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	missed := 0
	fmt.Print("| mutant | worlds | seconds | found by |\n|---|---|---|---|\n")
	for i := range mutants {
		m := &mutants[i]
		if !selected.MatchString(m.name) {
			continue
		}
		program, err := m.build(dir)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		began := time.Now()
		number, found, err := m.search(replay, program, worlds, first)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		if found == "" {
			missed++
			found = "**not found**"
		}
		fmt.Printf("| %s | %d | %.0f | %s |\n", m.name, number, time.Since(began).Seconds(), found)
	}
	if missed > 0 {
		return fmt.Errorf("%d mutants were not found", missed)
	}
	return nil
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

// plan returns the file with the plan of the world that found the mutant last.
func (m *mutant) plan() string {
	return filepath.Join("plans", strings.NewReplacer(" ", "-", ",", "").Replace(m.name)+".json")
}

// search runs worlds until one finds something, and keeps its plan. It returns how many there were,
// and what was found.
func (m *mutant) search(replay, program string, worlds int, first uint64) (number int, found string, err error) {
	programs := &runner.Programs{Replay: replay, Test: program, Timeout: 5 * time.Minute}
	var sources []runner.Source
	switch text, err := os.ReadFile(m.plan()); {
	case err == nil:
		known := runner.Source{Plan: m.plan()}
		if err := json.Unmarshal(text, &known); err != nil {
			return 0, "", err
		}
		sources = append(sources, known)
	case !errors.Is(err, fs.ErrNotExist):
		return 0, "", err
	}
	for i := range worlds {
		sources = append(sources, runner.Source{Seed: first + uint64(i)})
	}
	for i, source := range sources {
		outcome, err := programs.Run(context.Background(), source, "")
		if err != nil {
			return i + 1, "", err
		}
		if outcome.Error != "" {
			err := os.MkdirAll(filepath.Dir(m.plan()), 0o755)
			return i + 1, outcome.Error, errors.Join(err, os.WriteFile(m.plan(), append(outcome.Plan, '\n'), 0o644))
		}
	}
	return len(sources), "", nil
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package runner runs worlds, each in a process of its own, through program replay.
package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Report is what a world writes to the file of the flag -result of its test.
type Report struct {
	// Plan is that of the world, as JSON.
	Plan json.RawMessage
	// Error is what is wrong, empty if nothing is.
	Error     string
	Counts    map[string]int
	Simulated time.Duration
}

// NotOver is the Error of a world that has begun.
const NotOver = "the world did not come to its end"

// Outcome is what the process of a world came to.
type Outcome struct {
	Report
	// Output is what the process wrote.
	Output string

	over bool
}

// Over reports whether the world came to its end: then Error is what the world found, and not how
// its process ended.
func (o *Outcome) Over() bool { return o.over }

// Programs are what runs a world. They may be used by several goroutines.
type Programs struct {
	// Replay is the path of program replay, and Test that of the tests of package world.
	Replay, Test string
	// Timeout is how long a process may take.
	Timeout time.Duration
}

// Source is where the plan of a world comes from.
type Source struct {
	Seed uint64
	// Plan is a file with the plan. If it is empty, the plan is that of the seed.
	Plan string `json:"-"`
}

// Plans returns the plans in the files of a directory whose names end in .json, by name. Without a
// directory there are none.
func Plans(dir string) ([]Source, error) {
	if dir == "" {
		return nil, nil
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	sources := make([]Source, len(files))
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &sources[i])
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		sources[i].Plan = file
	}
	return sources, nil
}

// Name returns the name of the file with the plan, without its extension, or else the seed.
func (s Source) Name() string {
	if s.Plan != "" {
		return strings.TrimSuffix(filepath.Base(s.Plan), filepath.Ext(s.Plan))
	}
	return strconv.FormatUint(s.Seed, 10)
}

func (s Source) flags() []string {
	if s.Plan != "" {
		return []string{"-seeds=0", "-plan=" + s.Plan}
	}
	return []string{"-seeds=1", "-seed=" + strconv.FormatUint(s.Seed, 10)}
}

// Command returns the command that runs a world.
func (p *Programs) Command(source Source, transcript string) string {
	return strings.Join(append([]string{p.Replay}, p.arguments(source, transcript, os.DevNull)...), " ")
}

// arguments returns as many arguments each time: their number has an influence on where Go's
// runtime places what it allocates, and so on the world.
func (p *Programs) arguments(source Source, transcript, result string) []string {
	return append([]string{strconv.FormatUint(source.Seed, 10), p.Test, "-test.run=TestWorlds", "-test.v",
		"-test.timeout=" + p.Timeout.String(), "-transcript=" + cmp.Or(transcript, os.DevNull), "-result=" + result},
		source.flags()...)
}

// Run runs a world. It writes a transcript unless that is empty. The end of the process before that
// of the world is an outcome, too.
func (p *Programs) Run(ctx context.Context, source Source, transcript string) (*Outcome, error) {
	dir, err := os.MkdirTemp("", "world")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	result := filepath.Join(dir, "result.json")
	// A goroutine that never waits keeps the test from noticing that its time is over.
	limited, cancel := context.WithTimeout(ctx, p.Timeout+p.Timeout/10+time.Second)
	defer cancel()
	test := exec.CommandContext(limited, p.Replay, p.arguments(source, transcript, result)...)
	test.WaitDelay = 10 * time.Second
	output, failed := test.CombinedOutput()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if exit := (*exec.ExitError)(nil); failed != nil && !errors.As(failed, &exit) && limited.Err() == nil {
		return nil, fmt.Errorf("%s: %w", p.Replay, failed)
	}
	outcome := &Outcome{Output: string(output)}
	text, err := os.ReadFile(result)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the process did not begin a world:\n%s", end(outcome.Output))
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &outcome.Report); err != nil {
		return nil, fmt.Errorf("the result of a world: %w", err)
	}
	switch {
	case limited.Err() != nil:
		outcome.Error = fmt.Sprintf("the process did not end in %v", p.Timeout)
	case outcome.Error == NotOver || failed != nil && outcome.Error == "":
		outcome.Error = "the process died: " + death(outcome.Output)
	default:
		outcome.over = true
	}
	return outcome, nil
}

// deaths are how a line begins that says why a Go program ends, or why a test failed.
var deaths = regexp.MustCompile(`(?m)^\s*((?:panic|fatal error|runtime error|--- FAIL|SIG[A-Z]+): .*)$`)

// death returns why a process ended: the first line of its output that says so, or the last one.
func death(output string) string {
	if line := deaths.FindStringSubmatch(output); line != nil {
		return line[1]
	}
	lines := strings.Split(strings.TrimSpace(output), "\n")
	return lines[len(lines)-1]
}

// Excerpt returns the part of the output of a process that says why it ended: the lines from the
// first that does, or the last ones.
func (o *Outcome) Excerpt() string {
	at := deaths.FindStringIndex(o.Output)
	if at == nil {
		return end(o.Output)
	}
	lines := strings.SplitAfter(o.Output[at[0]:], "\n")
	return strings.Join(lines[:min(len(lines), excerptLines)], "")
}

const excerptLines = 40

func end(output string) string {
	lines := strings.SplitAfter(output, "\n")
	return strings.Join(lines[max(0, len(lines)-excerptLines):], "")
}

var (
	// parentheses may be within others.
	parentheses = regexp.MustCompile(`\s*\([^()]*\)`)
	// particular are words that have a digit in them, as names, numbers and times do, or quotes.
	particular = regexp.MustCompile(`\S*[0-9"]\S*`)
)

// Kind returns what errors have in common that have the same reason: the first words, without names
// and numbers.
func Kind(violation string) string {
	const words = 5
	for parentheses.MatchString(violation) {
		violation = parentheses.ReplaceAllString(violation, "")
	}
	fields := strings.Fields(particular.ReplaceAllString(violation, ""))
	return strings.Join(fields[:min(len(fields), words)], " ")
}

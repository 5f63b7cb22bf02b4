// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// simulate runs worlds in parallel, each in a process of its own, and says what they came to. Once
// one fails, it looks for a smaller plan that fails in the same way.
//
//	simulate [FLAGS] REPLAY WORLD.TEST
//
// REPLAY is the path of program replay, and WORLD.TEST that of the tests of package world.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/livesched/livesched/test/world/runner"
)

type simulation struct {
	programs *runner.Programs
	// plans are those of the worlds that come before the drawn ones.
	plans []runner.Source
	// first is the seed of the first drawn world.
	first uint64
	// worlds is how many worlds are drawn, and limit how long new ones begin. Zero is no limit.
	worlds int
	limit  time.Duration
	// parallel is how many processes there are at a time.
	parallel int
	// tries and shrinking bound the search for a smaller plan.
	tries     int
	shrinking time.Duration
	// dir is for what is left of a world that fails.
	dir string
}

func main() {
	s := simulation{programs: &runner.Programs{}}
	minutes := flag.Float64("minutes", 0, "for how long new worlds begin; 0: until there are enough")
	plans := flag.String("plans", "", "directory with the plans of worlds to run before the drawn ones")
	flag.Uint64Var(&s.first, "seed", 1, "seed of the first drawn world")
	flag.IntVar(&s.worlds, "worlds", 0, "how many worlds are drawn; 0: as many as begin in time")
	flag.IntVar(&s.parallel, "parallel", runtime.NumCPU(), "how many worlds run at a time")
	flag.DurationVar(&s.programs.Timeout, "timeout", 5*time.Minute, "how long a world may take")
	flag.IntVar(&s.tries, "shrink", 200, "how many smaller plans to try after a world has failed")
	flag.DurationVar(&s.shrinking, "shrink-time", 15*time.Minute, "for how long to try smaller plans")
	flag.StringVar(&s.dir, "dir", "bin/simulate", "directory for plan, transcripts and output of a world that fails")
	flag.Parse()
	s.limit = time.Duration(*minutes * float64(time.Minute))
	s.programs.Replay, s.programs.Test = flag.Arg(0), flag.Arg(1)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if s.plans, err = runner.Plans(*plans); err == nil {
		err = s.run(ctx, flag.NArg())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "simulate:", err)
		stop()
		os.Exit(1)
	}
}

func (s *simulation) run(ctx context.Context, arguments int) error {
	switch {
	case arguments != 2:
		return errors.New("usage: simulate [FLAGS] REPLAY WORLD.TEST")
	case s.worlds <= 0 && s.limit <= 0 && len(s.plans) == 0:
		return errors.New("there must be a limit: -worlds or -minutes, or there must be plans")
	case s.parallel < 1:
		return errors.New("-parallel must be 1 or more")
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	began := time.Now()
	total, failed, err := s.runWorlds(ctx)
	total.write(os.Stdout, time.Since(began))
	if err != nil || failed == nil {
		return err
	}
	return s.examine(ctx, failed)
}

// world is one that has run.
type world struct {
	source runner.Source
	*runner.Outcome
}

// source returns where the plan of a world comes from: first from a file, then from a seed.
func (s *simulation) source(number int) runner.Source {
	if number < len(s.plans) {
		return s.plans[number]
	}
	return runner.Source{Seed: s.first + uint64(number-len(s.plans))}
}

// file returns the path of a file about a world.
func (s *simulation) file(source runner.Source, extension string) string {
	return filepath.Join(s.dir, source.Name()+extension)
}

// runWorlds runs worlds until there are enough, or until one fails, which it returns. Those that
// run then come to their end, too. It leaves the transcripts of those that fail: some may not fail
// again.
func (s *simulation) runWorlds(ctx context.Context) (total summary, failed *world, err error) {
	type result struct {
		world
		err error
	}
	results := make(chan result)
	running, begun, began := 0, 0, time.Now()
	enough := func() bool {
		drawn := begun - len(s.plans)
		return failed != nil || err != nil || drawn >= 0 && (s.worlds > 0 && drawn == s.worlds ||
			s.limit > 0 && time.Since(began) >= s.limit || s.worlds <= 0 && s.limit <= 0)
	}
	for {
		for running < s.parallel && !enough() {
			source := s.source(begun)
			begun++
			running++
			go func() {
				outcome, err := s.programs.Run(ctx, source, s.file(source, ".txt"))
				results <- result{world{source, outcome}, err}
			}()
		}
		if running == 0 {
			return total, failed, err
		}
		r := <-results
		running--
		if r.err != nil {
			err = r.err
			continue
		}
		total.add(&r.Report)
		if r.Error == "" {
			err = os.Remove(s.file(r.source, ".txt"))
			continue
		}
		fmt.Printf("%s: %s\n", r.source.Name(), r.Error)
		if failed == nil {
			failed = &r.world
		}
	}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/livesched/livesched/internal/scheduler/resolve"
)

var errNoLicence = errors.New("no licence found")

// supervision is a Supervisor of builds that end when the test ends them. It runs in a bubble of
// synctest: the clock advances while all goroutines wait.
type supervision struct {
	*Supervisor
	generations *generations
	// ends has the results of builds that end immediately, by scheduler name. Others run until the
	// test ends them.
	ends map[string]error
	// takes is how long these take.
	takes time.Duration
	// started are the builds in their order, and changes is the number of reported changes.
	started []*Build
	changes atomic.Int32
	// ctx is the context of builds, and end ends it.
	ctx context.Context
	end context.CancelFunc
}

// supervise runs a test with a Supervisor.
func supervise(t *testing.T, name string, test func(*testing.T, *supervision)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, end := context.WithCancel(quiet(t))
			s := &supervision{generations: newGenerations(), ends: map[string]error{}, ctx: ctx, end: end}
			s.Supervisor = NewSupervisor(s.start, clock.RealClock{}, func() { s.changes.Add(1) })
			test(t, s)
			end()
			synctest.Wait()
		})
	})
}

func (s *supervision) start(ctx context.Context, cfg *resolve.Profile) *Build {
	b := (&Builder{clock: clock.RealClock{}}).newBuild(ctx, cfg)
	s.started = append(s.started, b)
	if err, ends := s.ends[cfg.SchedulerName]; ends {
		advance(s.takes)
		s.finish(b, err)
	}
	return b
}

// finish ends a build, with an instance if err is nil.
func (s *supervision) finish(b *Build, err error) {
	var instance *Instance
	if err == nil {
		instance = s.generations.make(b.cfg.SchedulerName).Instance
	}
	b.end(instance, err)
	synctest.Wait()
}

// build builds profiles, which are written as the scheduler name and the revision: "a1". It returns
// their states, and the number of started builds.
func (s *supervision) build(t *testing.T, profiles ...string) (outcomes map[string]Outcome, started int) {
	t.Helper()
	wanted := map[string]*resolve.Profile{}
	for _, p := range profiles {
		wanted[p[:1]] = &resolve.Profile{SchedulerName: p[:1], Revision: p[1:]}
	}
	before := len(s.started)
	outcomes = s.Build(s.ctx, wanted)
	if got := slices.Sorted(maps.Keys(outcomes)); !slices.Equal(got, slices.Sorted(maps.Keys(wanted))) {
		t.Fatalf("the outcomes are of %v, wanted are %v", got, profiles)
	}
	return outcomes, len(s.started) - before
}

// advance moves the clock of the bubble.
func advance(d time.Duration) { <-time.After(d) }

func TestASupervisor(t *testing.T) {
	supervise(t, "retries builds that fail, less and less often", func(t *testing.T, s *supervision) {
		s.ends["a"] = errNoLicence
		for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 120, 120} {
			want *= time.Second
			outcomes, started := s.build(t, "a1")
			if o := outcomes["a"]; started != 1 || o.Err == nil || !o.Failed || time.Until(o.RetryAt) != want {
				t.Fatalf("try %d: %d builds, %v, retried in %v, want %v", i+1, started, o.Err,
					time.Until(o.RetryAt), want)
			}
			advance(want - 1)
			outcomes, started = s.build(t, "a1")
			if o := outcomes["a"]; started != 0 || !errors.Is(o.Err, errNoLicence) || time.Until(o.RetryAt) != 1 {
				t.Errorf("try %d: before it is due: %d builds, %v, retried in %v", i+1, started, o.Err,
					time.Until(o.RetryAt))
			}
			advance(1)
		}
		s.ends["a"] = nil
		if outcomes, _ := s.build(t, "a1"); outcomes["a"].Built == nil || outcomes["a"].Failed {
			t.Errorf("not built: %+v", outcomes["a"])
		}
		s.build(t)
		s.ends["a"] = errNoLicence
		if outcomes, _ := s.build(t, "a1"); time.Until(outcomes["a"].RetryAt) != firstRetry {
			t.Errorf("after it was built it is retried in %v", time.Until(outcomes["a"].RetryAt))
		}
	})

	supervise(t, "goes on with the delays of retries that take longer than they", func(t *testing.T, s *supervision) {
		for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 120, 120} {
			s.build(t, "a1")
			advance(10 * time.Minute)
			s.finish(s.started[i], errNoLicence)
			outcomes, _ := s.build(t, "a1")
			if got := time.Until(outcomes["a"].RetryAt); got != want*time.Second {
				t.Errorf("after %d failures it is retried in %v", i+1, got)
			}
			advance(want * time.Second)
		}
	})

	supervise(t, "tries another revision at once, with delays of its own", func(t *testing.T, s *supervision) {
		s.ends["a"] = errNoLicence
		for range 5 {
			outcomes, _ := s.build(t, "a1")
			advance(time.Until(outcomes["a"].RetryAt))
		}
		s.build(t, "a1")
		outcomes, started := s.build(t, "a2")
		if got := time.Until(outcomes["a"].RetryAt); started != 1 || got != firstRetry {
			t.Errorf("%d builds of the new revision, retried in %v", started, got)
		}
	})

	supervise(t, "retries each profile at its own time, and forgets those that are not wanted", func(t *testing.T,
		s *supervision) {
		s.ends["a"], s.ends["b"] = errNoLicence, errNoLicence
		s.build(t, "a1")
		advance(time.Second)
		s.build(t, "a1")
		advance(500 * time.Millisecond)
		outcomes, _ := s.build(t, "a1", "b1")
		if a, b := time.Until(outcomes["a"].RetryAt), time.Until(outcomes["b"].RetryAt); a != 1500*time.Millisecond ||
			b != time.Second {
			t.Errorf("retried in %v and %v", a, b)
		}
		s.build(t, "b1")
		outcomes, started := s.build(t, "a1", "b1")
		if got := time.Until(outcomes["a"].RetryAt); started != 1 || got != firstRetry {
			t.Errorf("the profile that was deleted and created again: %d builds, retried in %v", started, got)
		}
	})

	supervise(t, "knows of a retry under way that the profile has failed before", func(t *testing.T, s *supervision) {
		s.ends["a"] = errNoLicence
		s.build(t, "a1")
		advance(firstRetry)
		delete(s.ends, "a")
		outcomes, started := s.build(t, "a1")
		if o := outcomes["a"]; started != 1 || !o.Pending() || !o.Failed {
			t.Errorf("%d builds: %+v", started, o)
		}
		s.finish(s.started[1], errNoLicence)
		outcomes, started = s.build(t, "a1")
		if o := outcomes["a"]; started != 0 || o.Err == nil || time.Until(o.RetryAt) != 2*firstRetry {
			t.Errorf("%d builds: %v, retried in %v", started, o.Err, time.Until(o.RetryAt))
		}
	})

	supervise(t, "sets a build aside that takes long, and reports when it ends", func(t *testing.T, s *supervision) {
		s.ends["b"] = nil
		begun := time.Now()
		outcomes, started := s.build(t, "a1", "b1")
		if !outcomes["a"].Pending() || outcomes["a"].Failed || outcomes["b"].Built == nil || started != 2 ||
			time.Since(begun) != buildPatience {
			t.Errorf("%+v after %v and %d builds", outcomes, time.Since(begun), started)
		}
		begun = time.Now()
		outcomes, started = s.build(t, "a1", "b1")
		if !outcomes["a"].Pending() || outcomes["b"].Built == nil || started != 0 || time.Since(begun) != 0 {
			t.Errorf("%+v once more after %v and %d builds", outcomes, time.Since(begun), started)
		}
		if n := s.changes.Load(); n != 0 {
			t.Errorf("%d changes reported while it is under way", n)
		}
		s.finish(s.started[0], nil)
		if n := s.changes.Load(); n != 1 {
			t.Errorf("%d changes reported", n)
		}
		outcomes, started = s.build(t, "a1", "b1")
		if outcomes["a"].Built != s.started[0] || outcomes["b"].Built != s.started[1] || started != 0 {
			t.Errorf("%+v when all are built, after %d more builds", outcomes, started)
		}
	})

	supervise(t, "does not wait long for the others once a build has taken long", func(t *testing.T, s *supervision) {
		begun := time.Now()
		s.build(t, "a1", "b1", "c1")
		if took := time.Since(begun); took != buildPatience+2*shortPatience {
			t.Errorf("it took %v", took)
		}
		begun = time.Now()
		s.build(t, "a1", "b1", "c1", "d1")
		if took := time.Since(begun); took != buildPatience {
			t.Errorf("with one more it took %v", took)
		}
	})

	supervise(t, "begins builds for a turn only, and the latest change first", func(t *testing.T, s *supervision) {
		s.takes = buildTurn/2 + 1
		order := func() (names string) {
			for _, b := range s.started {
				names += b.cfg.SchedulerName + b.cfg.Revision + " "
			}
			return names
		}
		for name := range strings.SplitSeq("abcdef", "") {
			s.ends[name] = nil
		}
		outcomes, _ := s.build(t, "a1", "b1", "c1", "d1", "e1")
		if got := order(); got != "a1 b1 " || !outcomes["c"].Waiting || !outcomes["c"].Pending() ||
			outcomes["b"].Waiting || s.changes.Load() != 1 {
			t.Errorf("built %s, %+v, %d changes reported", got, outcomes, s.changes.Load())
		}
		s.build(t, "a1", "b1", "c1", "d2", "e1", "f1")
		if got := order(); got != "a1 b1 d2 f1 " || s.changes.Load() != 2 {
			t.Errorf("built %s, %d changes reported", got, s.changes.Load())
		}
		outcomes, _ = s.build(t, "a1", "b1", "c1", "d2", "e1", "f1")
		if got := order(); got != "a1 b1 d2 f1 c1 e1 " || s.changes.Load() != 2 {
			t.Errorf("built %s, %d changes reported", got, s.changes.Load())
		}
		for name, o := range outcomes {
			if o.Built == nil || o.Waiting {
				t.Errorf("%s: %+v", name, o)
			}
		}
	})

	supervise(t, "gives up a build that is not wanted any more", func(t *testing.T, s *supervision) {
		s.build(t, "a1", "b1", "c1")
		s.build(t, "a2", "c1")
		a, b, c := s.started[0], s.started[1], s.started[2]
		if !errors.Is(context.Cause(a.lifetime), errUnwanted) || !errors.Is(context.Cause(b.lifetime), errUnwanted) {
			t.Errorf("they end with %v and %v", context.Cause(a.lifetime), context.Cause(b.lifetime))
		}
		if c.lifetime.Err() != nil {
			t.Error("the third, too, is given up")
		}
		if len(s.started) != 4 || s.started[3].cfg.Revision != "2" {
			t.Errorf("%d builds", len(s.started))
		}
	})

	supervise(t, "discards an instance that is not wanted any more, and none that was taken", func(t *testing.T,
		s *supervision) {
		s.ends["a"], s.ends["b"] = nil, nil
		outcomes, _ := s.build(t, "a1", "b1")
		taken := outcomes["a"].Built.Take()
		if taken == nil || outcomes["a"].Built.Take() != nil {
			t.Errorf("taken is %v, and again", taken)
		}
		s.build(t)
		<-outcomes["b"].Built.instance.Closed()
		if outcomes["b"].Built.Take() != nil {
			t.Error("an instance was taken after it was discarded")
		}
		select {
		case <-taken.Closed():
			t.Error("the instance that was taken is closed")
		default:
		}
		if _, started := s.build(t, "a1"); started != 1 {
			t.Errorf("%d builds of a profile that is wanted again", started)
		}
	})

	supervise(t, "discards everything when its context ends", func(t *testing.T, s *supervision) {
		s.ends["a"] = nil
		outcomes, _ := s.build(t, "a1", "b1")
		s.end()
		<-outcomes["a"].Built.instance.Closed()
		if outcomes["a"].Built.Take() != nil {
			t.Error("an instance was taken after the end")
		}
		begun := time.Now()
		s.build(t, "a1", "b1", "c1")
		if took := time.Since(begun); took != 0 {
			t.Errorf("builds were waited for, for %v", took)
		}
		if b := s.started[1]; b.lifetime.Err() == nil {
			t.Error("a build goes on after the end")
		}
	})
}

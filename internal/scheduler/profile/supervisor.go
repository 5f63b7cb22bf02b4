// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

const (
	// buildPatience is how long Supervisor.Build waits for one build before it continues with the
	// other profiles. Builds take milliseconds, and seconds only where an informer of a new kind
	// has much to list.
	buildPatience = time.Second
	// shortPatience takes its place once one build has taken longer: a plugin that hangs often
	// hangs in many profiles, and the other profiles must not wait for all of them.
	shortPatience = buildPatience / 10

	// buildTurn is how long Supervisor.Build begins builds, apart from the time that it waits for
	// those that take long. The rest waits for the next call, so that a change of one profile need
	// not wait until hundreds of others are built.
	buildTurn = 20 * time.Millisecond

	// A build that failed is retried after firstRetry, and after twice the last delay when it fails
	// again, up to lastRetry: the cause may be gone, for example if the permission to watch a
	// resource was granted. A build that hangs takes until its timeout and delays the others a
	// little each time, so it is not retried too often.
	firstRetry = time.Second
	lastRetry  = 2 * time.Minute
)

// errUnwanted ends a build whose outcome is not needed any more.
var errUnwanted = errors.New("the profile was changed again or deleted")

// Supervisor keeps a set of profiles built: at most one build for each resolve.Profile.ID, one
// after the other, the last change first. A build that takes long is set aside, and the others
// continue; when it ends, the Supervisor asks for another call of Build, which returns the outcome.
// If there are many builds, some wait for the next call. A build that failed is retried with a
// back-off, which starts from the beginning with another revision.
//
// Goroutines: Build is for one goroutine. Each build runs on its own: see Build.
type Supervisor struct {
	start      func(context.Context, *resolve.Profile) *Build
	clock      clock.Clock
	buildAgain func()

	// underWay holds the builds that run, and those whose instance was not taken yet, by scheduler
	// name.
	underWay map[string]*supervised
	// calls counts the calls of Build. since holds the call that first wanted the revision of each
	// wanted profile, by scheduler name.
	calls int
	since map[string]want
	// failures holds the builds whose last attempt failed, by scheduler name. A failure is
	// forgotten when the profile is built or gone.
	failures map[string]failure
}

// supervised is a build of the Supervisor.
type supervised struct {
	*Build
	// aside reports whether Build no longer waits for it.
	aside bool
}

// want is a wanted revision, and the number of the call of Build that first wanted it.
type want struct {
	revision string
	call     int
}

// failure is a build that failed, once or several times in a row.
type failure struct {
	revision string
	times    int
	err      error
	// retryAt is when it is tried again.
	retryAt time.Time
}

// Outcome is the state or the result of the build of one profile.
type Outcome struct {
	// Built is the build that has succeeded. Its instance can be taken. It is nil while the build
	// is running and after it failed.
	Built *Build
	// Err is the error of the last attempt. It is nil while it is being retried.
	Err error
	// RetryAt is when a build that failed is tried again.
	RetryAt time.Time
	// Waiting reports whether the build has not begun because of many others. The next call of
	// Build begins it.
	Waiting bool
	// Failed reports whether an earlier attempt failed, so that the running build is a retry or
	// the build of a new revision.
	Failed bool
}

// Pending reports whether the build is running or has not begun.
func (o Outcome) Pending() bool { return o.Built == nil && o.Err == nil }

// NewSupervisor returns a Supervisor without builds. It begins builds with start. It calls
// buildAgain, from any goroutine, when Build has to be called again: a build that was set aside has
// ended, or some builds have not begun. buildAgain must not block.
func NewSupervisor(start func(context.Context, *resolve.Profile) *Build, clock clock.Clock,
	buildAgain func()) *Supervisor {
	return &Supervisor{
		start: start, clock: clock, buildAgain: buildAgain,
		underWay: map[string]*supervised{}, since: map[string]want{}, failures: map[string]failure{},
	}
}

// Build builds the wanted profiles, by scheduler name, and gives up all other builds. It waits only
// briefly for each build, and returns the outcome of each. The builds go on after the call with
// ctx, and with its logger. When ctx ends, running builds are cut off, and instances that were not
// taken are discarded.
func (s *Supervisor) Build(ctx context.Context, wanted map[string]*resolve.Profile) map[string]Outcome {
	s.giveUpOthers(wanted)
	patience, turnEnds, waiting := buildPatience, s.clock.Now().Add(buildTurn), false
	outcomes := make(map[string]Outcome, len(wanted))
	for _, name := range s.latestFirst(wanted) {
		if s.mustBegin(wanted[name]) && len(outcomes) > 0 && s.clock.Now().After(turnEnds) {
			_, failed := s.failures[name]
			outcomes[name], waiting = Outcome{Waiting: true, Failed: failed}, true
			continue
		}
		begun := s.clock.Now()
		outcome, timedOut := s.build(ctx, wanted[name], patience)
		outcomes[name] = outcome
		if timedOut {
			patience, turnEnds = shortPatience, turnEnds.Add(s.clock.Since(begun))
		}
	}
	if waiting {
		s.buildAgain()
	}
	return outcomes
}

// latestFirst returns the scheduler names of profiles: those whose revision is wanted since the
// latest call first.
func (s *Supervisor) latestFirst(wanted map[string]*resolve.Profile) []string {
	s.calls++
	for name, cfg := range wanted {
		if s.since[name].revision != cfg.Revision {
			s.since[name] = want{revision: cfg.Revision, call: s.calls}
		}
	}
	return slices.SortedFunc(maps.Keys(wanted), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.since[b].call, s.since[a].call), cmp.Compare(a, b))
	})
}

// mustBegin reports whether a build is to be begun: it is neither running nor failed too recently.
func (s *Supervisor) mustBegin(cfg *resolve.Profile) bool {
	last, failed := s.failures[cfg.ID()]
	tooEarly := failed && last.revision == cfg.Revision && s.clock.Now().Before(last.retryAt)
	return s.underWay[cfg.ID()] == nil && !tooEarly
}

// giveUpOthers ends the builds of revisions that are not wanted, and forgets the failures of
// profiles that are not.
func (s *Supervisor) giveUpOthers(wanted map[string]*resolve.Profile) {
	for name, b := range s.underWay {
		if cfg := wanted[name]; cfg == nil || cfg.Revision != b.cfg.Revision || b.released() {
			b.Cancel(errUnwanted)
			delete(s.underWay, name)
		}
	}
	maps.DeleteFunc(s.failures, func(name string, _ failure) bool { return wanted[name] == nil })
	maps.DeleteFunc(s.since, func(name string, _ want) bool { return wanted[name] == nil })
}

// build begins the build of a profile unless it is running or failed too recently, and waits for
// it. timedOut reports whether it has used up the patience.
func (s *Supervisor) build(ctx context.Context, cfg *resolve.Profile,
	patience time.Duration) (outcome Outcome, timedOut bool) {
	name := cfg.ID()
	logger := klog.FromContext(ctx).WithValues("profile", name, "revision", cfg.Revision, "generation",
		cfg.Generation)
	_, failed := s.failures[name]
	b := s.underWay[name]
	if b == nil {
		if !s.mustBegin(cfg) {
			return s.failed(name), false
		}
		b = &supervised{Build: s.start(klog.NewContext(ctx, logger), cfg)}
		s.underWay[name] = b
	}
	timedOut = s.await(ctx, b, patience)
	switch {
	case timedOut && ctx.Err() == nil:
		logger.Info("Building a profile takes long; continuing with the other profiles")
		fallthrough
	case b.aside:
		return Outcome{Failed: failed}, timedOut
	case b.Err() != nil:
		delete(s.underWay, name)
		s.noteFailure(cfg, b.Err())
		if ctx.Err() == nil {
			metrics.Reloads.WithLabelValues(metrics.ReloadFailed).Inc()
			logger.Error(b.Err(), "Building a profile failed; the running instance, if any, is kept")
		}
		return s.failed(name), false
	default:
		delete(s.failures, name)
		return Outcome{Built: b.Build}, false
	}
}

// await waits for a build, and sets it aside if it does not end in time. timedOut reports whether
// it did so.
func (s *Supervisor) await(ctx context.Context, b *supervised, patience time.Duration) (timedOut bool) {
	select {
	case <-b.Done():
		b.aside = false
		return false
	default:
	}
	if b.aside {
		return false
	}
	timer := s.clock.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-b.Done():
		return false
	case <-timer.C():
	case <-ctx.Done():
	}
	b.aside = true
	b.OnEnd(s.buildAgain)
	return true
}

// noteFailure records that a build failed, and when it is tried again.
func (s *Supervisor) noteFailure(cfg *resolve.Profile, err error) {
	last := s.failures[cfg.ID()]
	if last.revision != cfg.Revision {
		last.times = 0
	}
	delay := min(firstRetry<<min(last.times, 10), lastRetry)
	s.failures[cfg.ID()] = failure{revision: cfg.Revision, times: last.times + 1, err: err,
		retryAt: s.clock.Now().Add(delay)}
}

// failed returns the outcome of a build that failed and is not running.
func (s *Supervisor) failed(name string) Outcome {
	return Outcome{Err: s.failures[name].err, RetryAt: s.failures[name].retryAt, Failed: true}
}

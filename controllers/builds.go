// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/livesched/livesched/internal/scheduler/config"
	"github.com/livesched/livesched/internal/scheduler/profile"
)

const (
	// buildPatience is how long the worker waits for a build before it takes it to hang and goes on
	// with the other profiles. Builds take milliseconds, and seconds only where an informer of a
	// new kind has much to list.
	buildPatience = time.Second
	// shortPatience is what it waits once one has taken longer: where a plugin hangs it often does
	// so in many profiles, and those that can be built must not wait for all of them.
	shortPatience = buildPatience / 10
)

// errUnwanted ends a build whose outcome nobody wants any more.
var errUnwanted = errors.New("the profile was changed again or deleted")

// builds are the builds under way, at most one for each scheduler name. A build begins when the one
// before it has ended, or is taken to hang: that one is set aside, and asks for another
// reconciliation when it ends, which finds its outcome here.
//
// Goroutines: the worker alone touches builds and calls its methods. Each build runs on a goroutine
// of its own, which writes the outcome, closes done and ends. That happens within the build's
// timeout, and at once when the build is given up or the process ends.
type builds struct {
	// lifetime ends with the process. What was built and not taken by then is discarded. changed
	// asks for another reconciliation. Both are set before the first one.
	lifetime context.Context
	changed  func()

	underWay map[string]*build
	// patience is what is left of it in this reconciliation.
	patience time.Duration
}

// attempts are the builds under way, and those that failed when they were last tried.
type attempts struct {
	builds  builds
	failing failures
}

// newAttempts returns none. For lifetime and changed see builds.
func newAttempts(lifetime context.Context, changed func()) attempts {
	return attempts{builds: builds{lifetime: lifetime, changed: changed}, failing: failures{}}
}

// build is a build under way, or one whose outcome was not taken yet.
type build struct {
	of  *builds
	cfg *config.Profile
	// standIn, if not nil, is what the build is to run as, in the place of what could not be built;
	// the worker's own.
	standIn *config.Profile

	cancel context.CancelCauseFunc
	done   chan struct{}
	aside  bool // the worker waits for it no more; the worker's own

	// The fields below are written before done is closed, and not afterwards.
	profile *profile.Instance
	err     error
	took    time.Duration
	// keep has the profile not be discarded at the end of the build's context. It returns false if
	// that has come.
	keep func() bool
}

// ended says whether the outcome is there.
func (u *build) ended() bool {
	select {
	case <-u.done:
		return true
	default:
		return false
	}
}

// begin begins a reconciliation. It gives up the builds of what is not wanted any more.
func (b *builds) begin(wanted map[string]*config.Profile) {
	b.patience = buildPatience
	for name, u := range b.underWay {
		if cfg := wanted[name]; cfg == nil || cfg.Revision != u.cfg.Revision {
			b.giveUp(name)
		}
	}
}

// giveUp cuts off the build of a scheduler name, if there is one, and has discarded what comes of
// it.
func (b *builds) giveUp(schedulerName string) {
	if u := b.underWay[schedulerName]; u != nil {
		u.cancel(errUnwanted)
		delete(b.underWay, schedulerName)
	}
}

// start begins a build. ctx lends it a logger.
func (b *builds) start(ctx context.Context, cfg *config.Profile, run func(context.Context, *config.Profile) (*profile.Instance, error)) *build {
	logger := log.FromContext(ctx)
	lifetime, cancel := context.WithCancelCause(log.IntoContext(b.lifetime, logger))
	u := &build{of: b, cfg: cfg, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(u.done)
		begun := time.Now()
		u.profile, u.err = run(lifetime, cfg)
		u.took = time.Since(begun)
		if u.err == nil {
			u.keep = context.AfterFunc(lifetime, func() { u.profile.Discard(logger) })
		}
	}()
	if b.underWay == nil {
		b.underWay = map[string]*build{}
	}
	b.underWay[cfg.SchedulerName] = u
	return u
}

// await waits for a build and says whether it has ended. One that takes too long is set aside.
func (b *builds) await(u *build) bool {
	if u.ended() {
		return true
	}
	if u.aside {
		return false
	}
	timer := time.NewTimer(b.patience)
	defer timer.Stop()
	select {
	case <-u.done:
		return true
	case <-timer.C:
	case <-b.lifetime.Done():
	}
	b.patience = shortPatience
	u.aside = true
	go func() {
		<-u.done
		b.changed()
	}()
	return false
}

// take hands over the profile of a build that has succeeded. It returns false if the process ends.
func (b *builds) take(u *build) bool {
	delete(b.underWay, u.cfg.SchedulerName)
	kept := u.keep()
	u.cancel(nil)
	return kept
}

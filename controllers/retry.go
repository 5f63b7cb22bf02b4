// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"time"

	"github.com/livesched/livesched/internal/scheduler/config"
)

// A build that failed is tried again after firstRetry, and then after twice the time of the time
// before, up to lastRetry: what was missing may have come, such as the permission to watch a
// resource. A build that hangs takes until its timeout, and holds up the others for a moment each
// time, so that it is not tried too often.
const (
	firstRetry = time.Second
	lastRetry  = 2 * time.Minute
)

// failures are the builds that failed, by scheduler name. Not safe for concurrent use.
type failures map[string]*failure

// failure is a build that failed.
type failure struct {
	// revision that could not be built. Another one under the name is tried at once.
	revision string
	err      error
	// delay is what has to pass until it is tried again, at next.
	delay time.Duration
	next  time.Time
	// trying says that it is being tried, and so not due.
	trying bool
}

// pending returns the error of a build that is not due yet, nil if it may be tried.
func (f failures) pending(cfg *config.Profile, now time.Time) error {
	if last := f[cfg.SchedulerName]; last != nil && last.revision == cfg.Revision && now.Before(last.next) {
		return last.err
	}
	return nil
}

// begin notes that a build is being tried.
func (f failures) begin(cfg *config.Profile) {
	if last := f[cfg.SchedulerName]; last != nil {
		last.trying = true
	}
}

// note notes how a build ended.
func (f failures) note(cfg *config.Profile, err error, now time.Time) {
	if err == nil {
		delete(f, cfg.SchedulerName)
		return
	}
	delay := firstRetry
	if last := f[cfg.SchedulerName]; last != nil && last.revision == cfg.Revision {
		delay = min(2*last.delay, lastRetry)
	}
	f[cfg.SchedulerName] = &failure{revision: cfg.Revision, err: err, delay: delay, next: now.Add(delay)}
}

// keep forgets all but the profiles that could not be built, or not yet: the others are not wanted
// any more, or run.
func (f failures) keep(p *programmed) {
	for name := range f {
		if p.failed[name] == nil && p.pending[name] == "" {
			delete(f, name)
		}
	}
}

// due is how long it is until the first build is to be tried again, 0 if none is.
func (f failures) due(now time.Time) time.Duration {
	var soonest time.Duration
	for _, failure := range f {
		if failure.trying {
			continue
		}
		// 0 would be never.
		if wait := max(failure.next.Sub(now), time.Millisecond); soonest == 0 || wait < soonest {
			soonest = wait
		}
	}
	return soonest
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"time"

	"github.com/livesched/livesched/internal/scheduler/config"
)

// A build that failed is tried again after firstRetry, and then after twice the time of the time before, up to lastRetry:
// what was missing may have come, such as the permission to watch a resource. A build can hang until its
// timeout, and nothing else is built in that time, so that trying too often would hold up the other profiles.
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
}

// pending returns the error of a build that is not due yet, nil if it may be tried.
func (f failures) pending(cfg *config.Profile, now time.Time) error {
	if last := f[cfg.SchedulerName]; last != nil && last.revision == cfg.Revision && now.Before(last.next) {
		return last.err
	}
	return nil
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

// keep forgets all but the given failures: the others are not wanted any more, or run.
func (f failures) keep(failed map[string]error) {
	for name := range f {
		if failed[name] == nil {
			delete(f, name)
		}
	}
}

// due is how long it is until the first build is to be tried again, 0 if none is.
func (f failures) due(now time.Time) time.Duration {
	var soonest time.Duration
	for _, failure := range f {
		// 0 would be never.
		if wait := max(failure.next.Sub(now), time.Millisecond); soonest == 0 || wait < soonest {
			soonest = wait
		}
	}
	return soonest
}

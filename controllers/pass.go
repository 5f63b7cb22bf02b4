// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"time"

	"github.com/livesched/livesched/internal/scheduler/config"
	"github.com/livesched/livesched/internal/scheduler/profile"
)

// staleRetry is how long to wait for the cache to receive a status that was written during the
// pass.
const staleRetry = 50 * time.Millisecond

const (
	// A failed read or write is retried after firstRetry. The delay doubles with each further
	// failure, up to lastRetry.
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
)

// retries is the wait before the next retry of something that failed, 0 if it did not.
type retries time.Duration

// after returns the wait before the next retry, after another success or failure.
func (r *retries) after(failed bool) time.Duration {
	if !failed {
		*r = 0
	} else {
		*r = retries(min(max(2*time.Duration(*r), firstRetry), lastRetry))
	}
	return time.Duration(*r)
}

// pass is one reconciliation of the whole set. Each stage reads the results of the earlier stages,
// and adds its own.
type pass struct {
	// leading reports whether this replica leads, and so stores history and writes status.
	leading bool
	// objects holds the objects that gather has read.
	objects objects
	// resolution is the configuration that the objects specify.
	resolution *config.Resolution
	builds     builds
	plan       *plan
	// running holds the profiles that schedule pods after the swap, by scheduler name.
	running map[string]*running
	stored  stored
	// historyRetry is how long to wait until history is read or stored again, 0 if nothing failed.
	historyRetry time.Duration
	// statusRetry is how long to wait until the statuses are written that could not be, 0 if there
	// are none.
	statusRetry time.Duration
	// stale reports whether the cache had an outdated version of some object. The next pass writes
	// its status.
	stale bool
}

// state returns the state that status reports after the pass.
func (p *pass) state() *state {
	return &state{resolution: p.resolution, running: p.running, failed: p.plan.failed, pending: p.plan.pending}
}

// requeueAfter returns how long to wait for the next pass if nothing changes, 0 if none is needed.
func (p *pass) requeueAfter(now time.Time) time.Duration {
	if p.stale {
		return staleRetry
	}
	wait := sooner(p.historyRetry, p.statusRetry)
	for _, outcomes := range []map[string]profile.Outcome{p.builds.wanted, p.builds.standIns} {
		for _, outcome := range outcomes {
			if outcome.Err != nil {
				// A wait of 0 would mean that no pass is needed.
				wait = sooner(wait, max(outcome.RetryAt.Sub(now), time.Millisecond))
			}
		}
	}
	return wait
}

// sooner returns the shorter of two waits. 0 means no wait.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

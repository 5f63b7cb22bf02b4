// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"time"

	"github.com/livesched/livesched/internal/scheduler/config"
	"github.com/livesched/livesched/internal/scheduler/profile"
)

// staleRetry is how long to wait for the cache to catch up with a status that was written
// meanwhile.
const staleRetry = 50 * time.Millisecond

// pass is one reconciliation of the whole set. Each stage reads what the stages before it have
// filled in, and fills in its own part.
type pass struct {
	// leading: this replica leads, so that it stores history and writes status.
	leading bool
	// objects are what gather has read.
	objects objects
	// resolution is what the objects ask for.
	resolution *config.Resolution
	builds     builds
	plan       *plan
	// running are the profiles that decide after the swap, by scheduler name.
	running map[string]*running
	stored  stored
	// historyRetry is how long to wait until history is read or stored again, 0 if nothing failed.
	historyRetry time.Duration
	// stale: the cache was behind the API server with some object, whose status is written in
	// another pass.
	stale bool
}

// state returns what status reports of the pass.
func (p *pass) state() *state {
	return &state{resolution: p.resolution, running: p.running, failed: p.plan.failed, pending: p.plan.pending}
}

// requeueAfter returns how long to wait for the next pass if nothing changes, 0 if none is needed.
func (p *pass) requeueAfter(now time.Time) time.Duration {
	if p.stale {
		return staleRetry
	}
	wait := p.historyRetry
	for _, outcomes := range []map[string]profile.Outcome{p.builds.wanted, p.builds.standIns} {
		for _, outcome := range outcomes {
			if outcome.Err != nil {
				// 0 would be never.
				wait = sooner(wait, max(outcome.RetryAt.Sub(now), time.Millisecond))
			}
		}
	}
	return wait
}

// sooner returns the shorter of two waits. 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

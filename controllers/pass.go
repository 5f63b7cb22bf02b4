// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"time"

	"github.com/livesched/livesched/internal/lease"
	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

const (
	// A failed read or write is retried after firstRetry. The delay doubles with each further
	// failure, up to lastRetry.
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
)

// pass is one reconciliation of the whole set. Each stage reads the results of the earlier stages,
// and adds its own.
type pass struct {
	// leading reports whether this replica leads, and so writes what the pass reports.
	leading bool
	// objects holds the objects that gather has read. behind means that the cache has older ones.
	objects objects
	behind  bool
	// resolution is the configuration that the objects specify.
	resolution *resolve.Resolution
	// kubeScheduler is what is known about a kube-scheduler beside livesched.
	kubeScheduler lease.Sighting
	// rollouts are the roll-outs of the candidates. rolloutAgain is how long to wait until they are
	// looked at again, 0 if nothing has to be waited for.
	rollouts     rollouts
	rolloutAgain time.Duration
	builds       builds
	plan         *plan
	// running holds the profiles that schedule pods after the swap, and shadows, by
	// resolve.Profile.ID.
	running map[string]*running
	// recallRetry is how long to wait until the stored revisions are read again, 0 if they were
	// read.
	recallRetry time.Duration
}

// requeueAfter returns how long to wait for the next pass if nothing changes, 0 if none is needed.
func (p *pass) requeueAfter(now time.Time) time.Duration {
	wait := sooner(p.recallRetry, p.rolloutAgain)
	if p.behind {
		wait = sooner(wait, firstRetry)
	}
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

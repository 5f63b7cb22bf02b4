// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"

	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// builds holds the outcomes of the builds of a pass, by resolve.Profile.ID.
type builds struct {
	// wanted holds the outcomes for the resolved profiles whose revision does not run yet.
	wanted map[string]profile.Outcome
	// before holds the last good revisions that run if a profile cannot be built, and standIns the
	// outcomes of their builds.
	before   map[string]*resolve.Profile
	standIns map[string]profile.Outcome
}

// build builds the profiles that do not run yet, and then the stand-ins for those that could not be
// built. It waits for each build for a moment only.
func (r *ProfileReconciler) build(ctx context.Context, p *pass) {
	p.builds.wanted = r.wanted.Build(ctx, missing(p.resolution, r.last.active))
	p.builds.before = missingStandIns(p.builds.wanted, r.last.active, p.resolution.Before)
	p.builds.standIns = r.standIns.Build(ctx, p.builds.before)
}

// missing returns the resolved profiles whose revision does not run yet.
func missing(resolution *resolve.Resolution, now active) map[string]*resolve.Profile {
	wanted := map[string]*resolve.Profile{}
	for id, cfg := range resolution.All() {
		if running := now.profiles[id]; running == nil || running.Revision != cfg.Revision {
			wanted[id] = cfg
		}
	}
	return wanted
}

// missingStandIns returns the last good revisions, from lastGood, of the profiles that could not be
// built and have no running instance. This happens after a restart, when the revision that ran
// before it must continue to run. A profile whose build is being retried keeps its stand-in.
func missingStandIns(outcomes map[string]profile.Outcome, now active,
	lastGood func(schedulerName string) *resolve.Profile) map[string]*resolve.Profile {
	before := map[string]*resolve.Profile{}
	for name, outcome := range outcomes {
		if !outcome.Failed || now.profiles[name] != nil {
			continue
		}
		if cfg := lastGood(name); cfg != nil {
			before[name] = cfg
		}
	}
	return before
}

// tried reports whether every profile was built, or failed to be, at least once, and so was every
// stand-in.
func (b builds) tried() bool {
	for _, outcome := range b.wanted {
		if outcome.Pending() && !outcome.Failed {
			return false
		}
	}
	for _, outcome := range b.standIns {
		if outcome.Pending() {
			return false
		}
	}
	return true
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simulate rolls out revisions on owners that arrive and fail at random, with the state
// machine and the evidence of package rollout. It is for tests, and for the figures of the
// documentation.
package simulate

import (
	"math/rand/v2"
	"time"

	"github.com/livesched/livesched/internal/rollout"
	"github.com/livesched/livesched/internal/rollout/evidence"
)

// arrival is the time between two owners.
const arrival = 2 * time.Second

// Case is a roll-out to simulate. The stage Shadow compares enough owners, and shows no difference.
type Case struct {
	Plan *rollout.Plan
	// Stable and New are the probabilities that an owner fails with each revision.
	Stable, New float64
	// Owners is how many owners arrive at most in the stage Canary.
	Owners int
	// Watch is called with each of them, unless it is nil. The roll-out stops if it returns true.
	Watch func(Owner) bool
}

// Owner is an owner of pods in the stage Canary.
type Owner struct {
	// New means that it has the new revision, and Failed that its pods find no node.
	New, Failed bool
}

// Run returns the last stage of the roll-out, and how many owners had the new revision by then.
func (c *Case) Run(r *rand.Rand) (end rollout.Stage, owners int) {
	seen := &rollout.Observed{Compared: c.Plan.MinOwners,
		Owners: map[rollout.Metric]*evidence.Owners{rollout.Unschedulable: {}}}
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := begin.Add(c.Plan.ShadowFor)
	state, again := rollout.Start(begin).Next(now, c.Plan, seen, "")
	for range c.Owners {
		weight := state.Weight(c.Plan)
		owner := Owner{New: r.IntN(100) < weight}
		fails := c.Stable
		if owner.New {
			seen.New++
			fails = c.New
		} else {
			seen.Stable++
		}
		if owner.Failed = r.Float64() < fails; owner.Failed && weight > 0 && weight < 100 {
			seen.Owners[rollout.Unschedulable].Add(float64(weight)/100, owner.New)
		}
		if c.Watch != nil && c.Watch(owner) {
			break
		}
		now = now.Add(arrival)
		if !owner.New && !owner.Failed && (again.IsZero() || now.Before(again)) {
			continue // nothing has changed
		}
		if state, again = state.Next(now, c.Plan, seen, ""); state.Ended() {
			break
		}
	}
	return state.Stage, seen.New
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/livesched/livesched/internal/rollout"
	"github.com/livesched/livesched/internal/rollout/simulate"
)

// rollOutHarmless rolls out a revision that makes as many owners fail as the old one. Only one test
// of livesched may abort it, so that this one has the whole probability that odds allows.
func rollOutHarmless(random *rand.Rand, judged string, fails, odds int) end {
	plan := &rollout.Plan{MinOwners: minOwners, Odds: float64(odds),
		Measured: map[rollout.Metric]bool{rollout.Preempting: true},
		Steps:    []rollout.Step{{Weight: 5}, {Pause: time.Hour}, {Weight: 50}, {Pause: time.Hour}}}
	share := float64(fails) / 100
	c := simulate.Case{Plan: plan, Stable: share, New: share, Owners: math.MaxInt}
	if judged == livesched {
		stage, owners := c.Run(random)
		return end{stage, owners}
	}
	plan.Measured[rollout.Unschedulable] = true // in place of the evidence, pods takes it back
	pods := podCounts{level: 1 / float64(odds)}
	c.Watch = pods.worse
	stage, owners := c.Run(random)
	if pods.found {
		stage = rollout.Aborted
	}
	return end{stage, owners}
}

// rollOutHarmful rolls out a revision with the defaults of the analysis, at one weight.
func rollOutHarmful(random *rand.Rand, weight, fails int) end {
	c := simulate.Case{Stable: stableFails / 100.0, New: float64(fails) / 100, Owners: maxOwners,
		Plan: &rollout.Plan{MinOwners: minOwners, Odds: odds, ShadowFor: 5 * time.Minute,
			Steps: []rollout.Step{{Weight: weight}, {}}}}
	stage, owners := c.Run(random)
	return end{stage, owners}
}

// podCounts is a one-sided z-test of two proportions, of the pods that fail with each revision. One
// looks at it after each owner.
type podCounts struct {
	level                     float64
	newOwners                 int
	stable, new               float64
	stableFailing, newFailing float64
	found                     bool
}

// worse counts the pods of an owner, and reports whether the new revision is worse at the level.
func (p *podCounts) worse(o simulate.Owner) bool {
	failing := 0.0
	if o.Failed {
		failing = podsOfOwner
	}
	if o.New {
		p.newOwners++
		p.new += podsOfOwner
		p.newFailing += failing
	} else {
		p.stable += podsOfOwner
		p.stableFailing += failing
	}
	if p.newOwners < minOwners || p.stable == 0 {
		return false
	}
	all := (p.newFailing + p.stableFailing) / (p.new + p.stable)
	z := (p.newFailing/p.new - p.stableFailing/p.stable) / math.Sqrt(all*(1-all)*(1/p.new+1/p.stable))
	p.found = z > math.Sqrt2*math.Erfinv(1-2*p.level) // also false if nothing, or everything, has failed
	return p.found
}

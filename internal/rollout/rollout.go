// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rollout is the course of the roll-out of a new revision of a profile: which stage follows
// which, and when the new revision is promoted or aborted. It is pure: the time, what was observed
// and what users ask for come in as values.
//
//	Shadow     the new revision decides the pods of the stable one, too, and binds none
//	Canary     it gets a share of the owners of pods, step by step
//	Promoted   it decides all pods
//	Aborted    the stable revision decides all pods, until the spec changes or the user retries
//
// What is observed is evidence against the new revision (package evidence). Enough of it aborts the
// roll-out at any time. Without enough owners to judge by, a roll-out neither goes on nor aborts.
package rollout

import (
	"fmt"
	"strings"
	"time"

	"github.com/livesched/livesched/internal/rollout/evidence"
)

// Stage is a stage of a roll-out.
type Stage string

// The stages, in their order, and the end that is no success.
const (
	Shadow   Stage = "Shadow"
	Canary   Stage = "Canary"
	Promoted Stage = "Promoted"
	Aborted  Stage = "Aborted"
)

// Stages are all stages.
var Stages = []Stage{Shadow, Canary, Promoted, Aborted}

// Metric is a way in which a revision can be worse for an owner of pods.
type Metric string

const (
	// Unschedulable means that a pod of the owner found no node.
	Unschedulable Metric = "Unschedulable"
	// Preempting means that a pod of the owner evicted others.
	Preempting Metric = "Preempting"
)

// Metrics are all metrics.
var Metrics = []Metric{Unschedulable, Preempting}

// Step is a step of the stage Canary: it sets the weight, or pauses.
type Step struct {
	// Weight is the percentage of owners that get the new revision, 0 for a pause.
	Weight int
	// Pause is how long a pause lasts. 0: until the user promotes.
	Pause time.Duration
}

func (s Step) sets() bool { return s.Weight > 0 }

// Plan is how a profile is rolled out.
type Plan struct {
	// ShadowFor is how long the stage Shadow lasts at least. 0: there is none.
	ShadowFor time.Duration
	// Steps are those of the stage Canary. Without any, the new revision is promoted after Shadow.
	Steps []Step
	// MinOwners is the number of owners that must have been decided by the new revision before a
	// stage or a pause ends, and that must have failed with it before evidence aborts the roll-out.
	MinOwners int
	// Odds is how strong the evidence has to be to abort: 100 means 100 to 1, or 300 to 1 if there
	// are three tests. The probability to abort a revision that is no worse is at most the inverse,
	// in all tests together.
	Odds float64
	// PlacementPods is how many pods a simulation places anew in each step. 0: there is none.
	PlacementPods int
	// Measured are the metrics that never abort.
	Measured map[Metric]bool
}

// tests returns the number of tests that may abort: one of the owners for each metric, and one
// of the pairs.
func (p *Plan) tests(seen *Observed) int {
	n := 0
	for _, m := range Metrics {
		if p.Measured[m] {
			continue
		}
		n++
		if m == Unschedulable && (p.ShadowFor > 0 || seen.Paired[m].Differing > 0) {
			n++
		}
	}
	return n
}

// Observed is what was observed of a revision. Those of two leaders can be added.
type Observed struct {
	// Compared is the number of owners whose pods both revisions have decided in the stage Shadow,
	// and Paired counts, of these, those for which one revision was worse.
	Compared int
	Paired   map[Metric]evidence.Paired
	// Stable and New are the numbers of owners with each revision in the stage Canary, and Owners
	// counts those that failed.
	Stable, New int
	Owners      map[Metric]*evidence.Owners
	// StableTime and NewTime are how long decisions took with each revision in the stage Canary:
	// the median of the latest ones, 0 if there were none.
	StableTime, NewTime time.Duration
}

// Command is what the user asks for.
type Command string

const (
	// Abort ends the roll-out: the stable revision decides all pods.
	Abort Command = "abort"
	// Promote ends the stage or the pause at once.
	Promote Command = "promote"
	// PromoteFull ends the roll-out at once: the new revision decides all pods.
	PromoteFull Command = "promote-full"
	// Pause stops the roll-out where it is, until Resume.
	Pause Command = "pause"
	// Resume ends Pause.
	Resume Command = "resume"
	// Retry begins an aborted roll-out anew.
	Retry Command = "retry"
)

// State is the state of a roll-out. Its fields are stored in the status of the profile.
type State struct {
	Stage Stage
	// Step is the step of the stage Canary.
	Step int
	// Since is when the stage, or the step, began.
	Since time.Time
	// Paused means that the user has paused the roll-out. Waits means that it goes on only when the
	// user, or more owners, let it.
	Paused, Waits bool
	// Reason describes why the roll-out was aborted, or what it waits for.
	Reason string
}

// Start returns the state of a roll-out that begins.
func Start(now time.Time) State { return State{Stage: Shadow, Since: now} }

// Ended reports whether nothing follows by itself.
func (s State) Ended() bool { return s.Stage == Promoted || s.Stage == Aborted }

// Weight returns the percentage of owners that get the new revision.
func (s State) Weight(p *Plan) int {
	switch s.Stage {
	case Promoted:
		return 100
	case Canary:
		for i := min(s.Step, len(p.Steps)-1); i >= 0; i-- {
			if p.Steps[i].sets() {
				return p.Steps[i].Weight
			}
		}
	}
	return 0
}

// Next returns the state that follows at a time, and when to ask again if nothing else happens, the
// zero time if there is nothing to wait for.
func (s State) Next(now time.Time, p *Plan, seen *Observed, command Command) (next State, again time.Time) {
	switch command {
	case Retry:
		if s.Stage == Aborted {
			return Start(now), now
		}
	case Abort:
		if !s.Ended() {
			return State{Stage: Aborted, Since: now, Reason: "the user aborted it"}, time.Time{}
		}
	case PromoteFull:
		if !s.Ended() {
			return State{Stage: Promoted, Since: now}, time.Time{}
		}
	case Pause, Resume, Promote:
		s.Paused = command == Pause
	}
	if s.Ended() {
		return s, time.Time{}
	}
	if s.Stage == Canary && s.Step >= len(p.Steps) { // the list of steps was shortened meanwhile
		if len(p.Steps) == 0 {
			return State{Stage: Promoted, Since: now}, time.Time{}
		}
		s.Step, s.Since = 0, now
	}
	if why := p.against(seen); why != "" {
		return State{Stage: Aborted, Since: now, Reason: why}, time.Time{}
	}
	if s.Paused {
		s.Waits, s.Reason = true, "the user paused it"
		return s, time.Time{}
	}
	return s.proceed(now, p, seen, command == Promote)
}

// proceed ends the stage or step if it is over, or if skip is true, and those that follow at once.
func (s State) proceed(now time.Time, p *Plan, seen *Observed, skip bool) (State, time.Time) {
	for {
		over, reason, at := s.over(now, p, seen)
		if !over && !skip {
			s.Waits, s.Reason = at.IsZero(), reason
			return s, at
		}
		if !over {
			skip = false // it ends one stage or step
		}
		s = s.after(now, p)
		if s.Ended() {
			return s, time.Time{}
		}
	}
}

// after returns the state after the stage or step.
func (s State) after(now time.Time, p *Plan) State {
	step := 0
	if s.Stage == Canary {
		step = s.Step + 1
	}
	if step < len(p.Steps) {
		return State{Stage: Canary, Step: step, Since: now}
	}
	return State{Stage: Promoted, Since: now}
}

// over reports whether the stage or step is over. If not, it returns why, and when to ask again.
func (s State) over(now time.Time, p *Plan, seen *Observed) (over bool, reason string, at time.Time) {
	length, owners, what := p.ShadowFor, seen.Compared, "the comparison"
	if s.Stage == Canary {
		step := p.Steps[s.Step]
		if step.sets() {
			return true, "", time.Time{}
		}
		if step.Pause == 0 {
			return false, "it waits until it is promoted", time.Time{}
		}
		length, owners, what = step.Pause, seen.New, "the pause"
	} else if length == 0 {
		return true, "", time.Time{}
	}
	if end := s.Since.Add(length); now.Before(end) {
		return false, what + " ends at " + end.UTC().Format(time.RFC3339), end
	}
	if owners < p.MinOwners {
		// Without the number, which changes with every owner, and is in the status anyway.
		return false, fmt.Sprintf("inconclusive: the new revision has decided pods of fewer than %d owners",
			p.MinOwners), time.Time{}
	}
	return true, "", time.Time{}
}

// Describe describes the evidence of a metric, "" if there is none.
func (o *Observed) Describe(m Metric) string {
	var texts []string
	if o.Paired[m].Differing > 0 {
		texts = append(texts, o.describePairs(m))
	}
	if owners := o.Owners[m]; owners != nil && owners.Total() > 0 {
		texts = append(texts, o.describeOwners(m))
	}
	return strings.Join(texts, "; ")
}

func (o *Observed) describePairs(m Metric) string {
	pairs := o.Paired[m]
	return fmt.Sprintf("%s that the new revision %s, %d of %d owners for which the two revisions differ",
		odds(pairs.E()), m.worse(), pairs.Against, pairs.Differing)
}

func (o *Observed) describeOwners(m Metric) string {
	owners := o.Owners[m]
	return fmt.Sprintf("%s that the new revision %s, %d of %d owners that failed, with %d of %d owners",
		odds(owners.E()), m.worse(), owners.New, owners.Total(), o.New, o.New+o.Stable)
}

// against returns the evidence that suffices to abort, "" if there is none.
func (p *Plan) against(seen *Observed) string {
	needed := p.Odds * float64(p.tests(seen))
	for _, m := range Metrics {
		if p.Measured[m] {
			continue
		}
		if pairs := seen.Paired[m]; pairs.Differing >= p.MinOwners && pairs.E() >= needed {
			return seen.describePairs(m)
		}
		if owners := seen.Owners[m]; owners != nil && owners.New >= p.MinOwners && owners.E() >= needed {
			return seen.describeOwners(m)
		}
	}
	return ""
}

// worse describes how a revision is worse.
func (m Metric) worse() string {
	if m == Preempting {
		return "evicts pods for more owners"
	}
	return "leaves more owners without a node"
}

// odds writes an e-value as odds.
func odds(e float64) string {
	switch {
	case e >= 1e6:
		return "more than 1,000,000 : 1"
	case e >= 10:
		return fmt.Sprintf("%.0f : 1", e)
	}
	return fmt.Sprintf("%.1f : 1", e)
}

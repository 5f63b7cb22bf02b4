// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/livesched/livesched/internal/rollout/evidence"
)

var begin = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

func plan() *Plan {
	return &Plan{
		ShadowFor: 5 * time.Minute, MinOwners: 3, Odds: 20,
		Steps: []Step{{Weight: 5}, {Pause: 10 * time.Minute}, {Weight: 50}, {}},
	}
}

func many() *Observed { return &Observed{Compared: 100, New: 100, Stable: 100} }

func TestNext(t *testing.T) {
	failing := many()
	failing.Paired = map[Metric]evidence.Paired{Unschedulable: {Differing: 12, Against: 12}}
	for name, test := range map[string]struct {
		state   State
		after   time.Duration // since begin
		seen    *Observed
		command Command
		change  func(*Plan)
		want    State
		weight  int
		again   time.Duration // since begin, 0: never
		reason  string
	}{
		"the shadow decides for a while": {state: Start(begin), after: time.Minute, want: Start(begin),
			again: 5 * time.Minute, reason: "Shadow until 2026-11-26T12:05:00Z"},
		"then the first owners get the new revision": {state: Start(begin), after: 5 * time.Minute,
			want: State{Stage: Canary, Step: 1, Since: begin.Add(5 * time.Minute)}, weight: 5, again: 15 * time.Minute,
			reason: "Canary until 2026-11-26T12:15:00Z"},
		"but not before enough were compared": {state: Start(begin), after: time.Hour, seen: &Observed{Compared: 2},
			want: Start(begin), reason: "inconclusive: the new revision has decided pods of 2 owners, and 3 are needed"},
		"a pause ends": {state: State{Stage: Canary, Step: 1, Since: begin}, after: 10 * time.Minute,
			want: State{Stage: Canary, Step: 3, Since: begin.Add(10 * time.Minute)}, weight: 50,
			reason: "it waits until it is promoted"},
		"but not before enough owners had it": {state: State{Stage: Canary, Step: 1, Since: begin}, after: time.Hour,
			seen: &Observed{Compared: 100, New: 2, Stable: 1000}, want: State{Stage: Canary, Step: 1, Since: begin},
			weight: 5, reason: "inconclusive: the new revision has decided pods of 2 owners, and 3 are needed"},
		"a pause without an end waits": {state: State{Stage: Canary, Step: 3, Since: begin}, after: time.Hour,
			want: State{Stage: Canary, Step: 3, Since: begin}, weight: 50, reason: "it waits until it is promoted"},
		"until it is promoted": {state: State{Stage: Canary, Step: 3, Since: begin}, after: time.Hour, command: Promote,
			want: State{Stage: Promoted, Since: begin.Add(time.Hour)}, weight: 100},
		"to promote ends one pause": {state: State{Stage: Canary, Step: 1, Since: begin}, command: Promote,
			want: State{Stage: Canary, Step: 3, Since: begin}, weight: 50, reason: "it waits until it is promoted"},
		"to promote in full ends all": {state: Start(begin), command: PromoteFull,
			want: State{Stage: Promoted, Since: begin}, weight: 100},
		"evidence aborts": {state: State{Stage: Canary, Step: 1, Since: begin}, seen: failing,
			want: State{Stage: Aborted, Since: begin},
			reason: "630 : 1 that the new revision leaves more owners without a node, 12 of 12 owners for which the two " +
				"revisions differ"},
		"also while it is paused": {state: State{Stage: Canary, Step: 1, Since: begin, Paused: true}, seen: failing,
			want: State{Stage: Aborted, Since: begin}, reason: "630 : 1 that"},
		"but not of a metric that is only measured": {state: State{Stage: Canary, Step: 3, Since: begin}, seen: failing,
			change: func(p *Plan) { p.Measured = map[Metric]bool{Unschedulable: true} },
			want:   State{Stage: Canary, Step: 3, Since: begin}, weight: 50, reason: "it waits until it is promoted"},
		"the user aborts": {state: Start(begin), command: Abort, want: State{Stage: Aborted, Since: begin},
			reason: "the user aborted it"},
		"the user pauses": {state: Start(begin), after: time.Hour, command: Pause,
			want: State{Stage: Shadow, Since: begin, Paused: true}, reason: "the user paused it"},
		"and resumes": {state: State{Stage: Shadow, Since: begin, Paused: true}, after: time.Minute, command: Resume,
			want: Start(begin), again: 5 * time.Minute, reason: "Shadow until"},
		"an end is an end": {state: State{Stage: Aborted, Since: begin, Reason: "why"}, after: time.Hour, command: Promote,
			want: State{Stage: Aborted, Since: begin}, reason: "why"},
		"unless the user retries": {state: State{Stage: Aborted, Since: begin, Reason: "why"}, after: time.Hour,
			command: Retry, want: Start(begin.Add(time.Hour)), again: time.Hour},
		"a list of steps that was shortened begins anew": {state: State{Stage: Canary, Step: 3, Since: begin},
			after: time.Hour, change: func(p *Plan) { p.Steps = p.Steps[:2] },
			want: State{Stage: Canary, Step: 1, Since: begin.Add(time.Hour)}, weight: 5, again: 70 * time.Minute,
			reason: "Canary until 2026-11-26T13:10:00Z"},
		"without a shadow and steps it is promoted at once": {state: Start(begin),
			change: func(p *Plan) { *p = Plan{MinOwners: 3, Odds: 20} }, want: State{Stage: Promoted, Since: begin},
			weight: 100},
	} {
		t.Run(name, func(t *testing.T) {
			p, seen := plan(), test.seen
			if test.change != nil {
				test.change(p)
			}
			if seen == nil {
				seen = many()
			}
			got, again := test.state.Next(begin.Add(test.after), p, seen, test.command)
			if !strings.HasPrefix(got.Reason, test.reason) || test.reason == "" && got.Reason != "" {
				t.Errorf("the reason is %q, want %q", got.Reason, test.reason)
			}
			got.Reason, got.Waits = "", false
			if got != test.want || got.Weight(p) != test.weight {
				t.Errorf("got %+v with weight %d, want %+v with %d", got, got.Weight(p), test.want, test.weight)
			}
			want := time.Time{}
			if test.again > 0 {
				want = begin.Add(test.again)
			}
			if !again.Equal(want) {
				t.Errorf("asked again at %v, want %v", again, want)
			}
		})
	}
}

// simulate rolls out a revision: owners arrive, and fail with a probability that depends on their
// revision. It returns how the roll-out ended, and how many owners had the new revision by then.
func simulate(r *rand.Rand, p *Plan, failsOld, failsNew float64) (end Stage, owners int) {
	seen := &Observed{Compared: p.MinOwners, Owners: map[Metric]*evidence.Owners{Unschedulable: {}}}
	now := begin
	state, _ := Start(now).Next(now, p, seen, "")
	for range 4000 {
		weight := state.Weight(p)
		isNew := r.IntN(100) < weight
		fails := failsOld
		if isNew {
			seen.New++
			fails = failsNew
		} else {
			seen.Stable++
		}
		if r.Float64() < fails && weight > 0 && weight < 100 {
			seen.Owners[Unschedulable].Add(float64(weight)/100, isNew)
		}
		now = now.Add(2 * time.Second)
		if state, _ = state.Next(now, p, seen, ""); state.Ended() {
			return state.Stage, seen.New
		}
	}
	return state.Stage, seen.New
}

func simulated() *Plan {
	return &Plan{MinOwners: 3, Odds: 20, Measured: map[Metric]bool{Preempting: true},
		Steps: []Step{{Weight: 5}, {Pause: time.Hour}, {Weight: 50}, {Pause: time.Hour}}}
}

// TestHarmlessRevisionsAreSeldomAborted has failures that pods of one owner share: what counts are
// owners.
func TestHarmlessRevisionsAreSeldomAborted(t *testing.T) {
	const rollouts = 1000
	for _, fails := range []float64{0, 0.02, 0.2, 0.9} {
		t.Run(fmt.Sprint("failing ", fails), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(1, 0))
			ends := map[Stage]int{}
			for range rollouts {
				end, _ := simulate(r, simulated(), fails, fails)
				ends[end]++
			}
			t.Logf("%v", ends)
			if ends[Aborted] > rollouts/20 {
				t.Errorf("%d of %d harmless roll-outs were aborted", ends[Aborted], rollouts)
			}
			if ends[Promoted] < rollouts*9/10 {
				t.Errorf("only %d of %d were promoted", ends[Promoted], rollouts)
			}
		})
	}
}

func TestHarmfulRevisionsAreAbortedEarly(t *testing.T) {
	const rollouts = 300
	for _, test := range []struct {
		fails  float64
		median int // owners with the new revision until the roll-out is aborted, at most
	}{{1, 4}, {0.5, 6}, {0.2, 20}, {0.1, 70}} {
		t.Run(fmt.Sprint("failing ", test.fails), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(2, 0))
			var owners []int
			for range rollouts {
				end, n := simulate(r, simulated(), 0.02, test.fails)
				if end != Aborted {
					n = 1 << 20
				}
				owners = append(owners, n)
			}
			slices.Sort(owners)
			t.Logf("median %d, 90 %% within %d", owners[rollouts/2], owners[rollouts*9/10])
			if owners[rollouts/2] > test.median {
				t.Errorf("the median is %d owners, want at most %d", owners[rollouts/2], test.median)
			}
		})
	}
}

func TestASingleOwnerNeverDecides(t *testing.T) {
	p := plan()
	seen := many()
	seen.Owners = map[Metric]*evidence.Owners{Unschedulable: {}}
	for range 2 {
		seen.Owners[Unschedulable].Add(0.0001, true)
	}
	if why := p.against(seen); why != "" {
		t.Errorf("two owners of 10,000 abort: %s", why)
	}
	seen.Owners[Unschedulable].Add(0.0001, true)
	if why := p.against(seen); why == "" {
		t.Error("three do not")
	}
}

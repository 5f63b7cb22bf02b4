// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
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
			again: 5 * time.Minute, reason: "the comparison ends at 2026-11-26T12:05:00Z"},
		"then the first owners get the new revision": {state: Start(begin), after: 5 * time.Minute,
			want: State{Stage: Canary, Step: 1, Since: begin.Add(5 * time.Minute)}, weight: 5, again: 15 * time.Minute,
			reason: "the pause ends at 2026-11-26T12:15:00Z"},
		"but not before enough were compared": {state: Start(begin), after: time.Hour, seen: &Observed{Compared: 2},
			want:   Start(begin),
			reason: "inconclusive: the new revision has decided pods of fewer than 3 owners"},
		"a pause ends": {state: State{Stage: Canary, Step: 1, Since: begin}, after: 10 * time.Minute,
			want: State{Stage: Canary, Step: 3, Since: begin.Add(10 * time.Minute)}, weight: 50,
			reason: "it waits until it is promoted"},
		"but not before enough owners had it": {state: State{Stage: Canary, Step: 1, Since: begin}, after: time.Hour,
			seen: &Observed{Compared: 100, New: 2, Stable: 1000}, want: State{Stage: Canary, Step: 1, Since: begin},
			weight: 5, reason: "inconclusive: the new revision has decided pods of fewer than 3 owners"},
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
			reason: "630 : 1 that the new revision leaves more owners without a node, 12 of 12 owners for which the " +
				"two revisions differ"},
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
			want: Start(begin), again: 5 * time.Minute, reason: "the comparison ends at"},
		"to promote resumes, too": {state: State{Stage: Canary, Step: 1, Since: begin, Paused: true}, command: Promote,
			want: State{Stage: Canary, Step: 3, Since: begin}, weight: 50, reason: "it waits until it is promoted"},
		"an end is an end": {state: State{Stage: Aborted, Since: begin, Reason: "why"}, after: time.Hour,
			command: Promote, want: State{Stage: Aborted, Since: begin}, reason: "why"},
		"unless the user retries": {state: State{Stage: Aborted, Since: begin, Reason: "why"}, after: time.Hour,
			command: Retry, want: Start(begin.Add(time.Hour)), again: time.Hour},
		"a list of steps that was shortened begins anew": {state: State{Stage: Canary, Step: 3, Since: begin},
			after: time.Hour, change: func(p *Plan) { p.Steps = p.Steps[:2] },
			want: State{Stage: Canary, Step: 1, Since: begin.Add(time.Hour)}, weight: 5, again: 70 * time.Minute,
			reason: "the pause ends at 2026-11-26T13:10:00Z"},
		"without any step, nothing is left": {state: State{Stage: Canary, Step: 1, Since: begin},
			change: func(p *Plan) { p.Steps = nil }, want: State{Stage: Promoted, Since: begin}, weight: 100},
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

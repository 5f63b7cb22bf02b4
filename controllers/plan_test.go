// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// The possible outcomes of the tests' builds.
var (
	built    = profile.Outcome{Built: &profile.Build{}}
	failing  = profile.Outcome{Err: errNoLicence, Failed: true}
	building = profile.Outcome{}
	retrying = profile.Outcome{Failed: true}
)

// parse makes profiles from words like "a1:New": the scheduler name, the revision and the order of
// the queue, by default "Old".
func parse(words string) map[string]*resolve.Profile {
	profiles := map[string]*resolve.Profile{}
	for word := range strings.FieldsSeq(words) {
		nameAndRevision, order, found := strings.Cut(word, ":")
		if !found {
			order = "Old"
		}
		name := nameAndRevision[:1]
		profiles[name] = &resolve.Profile{SchedulerName: name, Revision: nameAndRevision[1:],
			QueueSort: resolve.QueueSort{Name: order}}
	}
	return profiles
}

// show formats profiles as parse reads them, without the order of the queue.
func show(profiles map[string]*resolve.Profile) string {
	words := make([]string, 0, len(profiles))
	for _, name := range slices.Sorted(maps.Keys(profiles)) {
		words = append(words, name+profiles[name].Revision)
	}
	return strings.Join(words, " ")
}

func TestAPlan(t *testing.T) {
	for _, test := range []struct {
		name string
		// resolved are the profiles that must run, and active those that run: see parse.
		resolved, active string
		wanted           outcomes
		// before are last good revisions that stand in for resolved ones, and standIns their
		// builds.
		before   string
		standIns outcomes
		// inUse and unread are the scheduler names that kube-scheduler uses, and may use.
		inUse, unread string

		// next are the profiles that run after the swap. take, failed, pending and reserved are
		// scheduler names.
		next, take, failed, pending, reserved string
	}{
		{name: "nothing at all"},
		{name: "a new profile is swapped in", resolved: "a1", wanted: outcomes{"a": built}, next: "a1", take: "a"},
		{name: "an unchanged profile is carried over", resolved: "a1", active: "a1", next: "a1"},
		{name: "a new revision takes the place of the old one", resolved: "a2", active: "a1",
			wanted: outcomes{"a": built}, next: "a2", take: "a"},
		{name: "a deleted profile is gone", resolved: "a1", active: "a1 b1", next: "a1"},
		{name: "a revision that cannot be built leaves the old one in place", resolved: "a2", active: "a1",
			wanted: outcomes{"a": failing}, next: "a1", failed: "a"},
		{name: "a new profile that cannot be built does not run", resolved: "a1", wanted: outcomes{"a": failing},
			failed: "a"},
		{name: "a revision that is being built leaves the old one in place", resolved: "a2", active: "a1",
			wanted: outcomes{"a": building}, next: "a1", pending: "a"},
		{name: "a revision whose build is retried is pending", resolved: "a2", active: "a1",
			wanted: outcomes{"a": retrying}, next: "a1", pending: "a"},
		{
			name: "one profile does not hold up another", resolved: "a2 b2 c2 d1", active: "a1 b1 c1 d1",
			wanted: outcomes{"a": failing, "b": building, "c": built},
			next:   "a1 b1 c2 d1", take: "c", failed: "a", pending: "b",
		},
		{
			name: "profiles that change the order of the queue wait for each other", resolved: "a2:New b2:New c2:New",
			active: "a1 b1 c1",
			wanted: outcomes{"a": built, "b": building, "c": built}, next: "a1 b1 c1", pending: "a b c",
		},
		{
			name: "profiles that do not change it go on meanwhile", resolved: "a2:New b2:New c1 d2", active: "a1 b1 d1",
			wanted: outcomes{"a": built, "b": building, "c": built, "d": built}, next: "a1 b1 c1 d2", take: "c d",
			pending: "a b",
		},
		{
			name: "a profile that changes it does not wait for one that keeps it", resolved: "a2:New b2",
			active: "a1 b1",
			wanted: outcomes{"a": built, "b": building}, next: "a2 b1", take: "a", pending: "b",
		},
		{
			name: "profiles that change it do not wait for one that cannot be built", resolved: "a2:New b2:New",
			active: "a1 b1",
			wanted: outcomes{"a": built, "b": failing}, next: "a2 b1", take: "a", failed: "b",
		},
		{
			name: "a stand-in runs where nothing else can", resolved: "a2", wanted: outcomes{"a": failing},
			before: "a1", standIns: outcomes{"a": built}, next: "a1", take: "a", failed: "a",
		},
		{
			name: "a stand-in runs while the build is retried", resolved: "a2", wanted: outcomes{"a": retrying},
			before: "a1", standIns: outcomes{"a": built}, next: "a1", take: "a", pending: "a",
		},
		{
			name: "a stand-in that is not built yet does not run", resolved: "a2 b2",
			wanted: outcomes{"a": failing, "b": failing},
			before: "a1 b1", standIns: outcomes{"a": building, "b": failing}, failed: "a b",
		},
		{
			name:     "a profile whose scheduler name is in use does not run, and holds up no other",
			resolved: "a1 b1:New c1", inUse: "a",
			wanted: outcomes{"a": built, "b": built, "c": built}, next: "b1 c1", take: "b c", reserved: "a",
		},
		{name: "nor while it is being built", resolved: "a1", wanted: outcomes{"a": building}, inUse: "a",
			reserved: "a"},
		{name: "nor if a follower has swapped it in", resolved: "a1 b1", active: "a1 b1", inUse: "a", next: "b1",
			reserved: "a"},
		{name: "nor another revision of it", resolved: "a2 b1", active: "a1 b1", wanted: outcomes{"a": built},
			inUse: "a", next: "b1", reserved: "a"},
		{name: "a failed build of it is reported as such", resolved: "a1", wanted: outcomes{"a": failing}, inUse: "a",
			failed: "a"},
		{name: "a profile waits until it is known whether its name is in use", resolved: "a1 b1",
			wanted: outcomes{"a": built, "b": built}, unread: "a", next: "b1", take: "b", pending: "a"},
		{name: "what runs goes on meanwhile", resolved: "a1", active: "a1", unread: "a", next: "a1", pending: "a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := makePlan(situation{
				resolution: &resolve.Resolution{Profiles: parse(test.resolved)},
				active:     active{profiles: parse(test.active)},
				builds:     builds{wanted: test.wanted, before: parse(test.before), standIns: test.standIns},
				reserved:   test.inUse, unclear: test.unread,
			})
			if p.reserved != test.reserved {
				t.Errorf("reserved is %q, want %q", p.reserved, test.reserved)
			}
			if got := show(p.next.profiles); got != test.next {
				t.Errorf("next run %q, want %q", got, test.next)
			}
			for what, got := range map[string][2]string{
				"taken":   {names(p.take), test.take},
				"failed":  {names(p.failed), test.failed},
				"pending": {names(p.pending), test.pending},
			} {
				if got[0] != got[1] {
					t.Errorf("%s are %q, want %q", what, got[0], got[1])
				}
			}
		})
	}
}

type outcomes = map[string]profile.Outcome

func names[V any](of map[string]V) string {
	return strings.Join(slices.Sorted(maps.Keys(of)), " ")
}

func TestAProfileOfTheSameRevisionIsCarriedOverAsTheNewerGeneration(t *testing.T) {
	before, now := parse("a1"), parse("a1")
	before["a"].Generation, now["a"].Generation = 1, 2
	p := makePlan(situation{resolution: &resolve.Resolution{Profiles: now}, active: active{profiles: before}})
	if got := p.next.profiles["a"]; got != now["a"] {
		t.Errorf("carried over as generation %d", got.Generation)
	}
}

func TestHeldProfileReportsTheReason(t *testing.T) {
	p := makePlan(situation{
		resolution: &resolve.Resolution{Profiles: parse("a2:New b2:New")},
		active:     active{profiles: parse("a1 b1")},
		builds:     builds{wanted: outcomes{"a": built, "b": building}},
	})
	want := map[string]string{
		"a": `is built, and waits for the profile with scheduler name "b", which changes the order of the queue at ` +
			`the same time`,
		"b": "is still being built",
	}
	if !maps.Equal(p.pending, want) {
		t.Errorf("pending are %v", p.pending)
	}
}

func TestOnlyRevisionsThatDoNotRunYetAreBuilt(t *testing.T) {
	got := missing(&resolve.Resolution{Profiles: parse("a1 b2 c1")}, active{profiles: parse("a1 b1 d1")})
	if show(got) != "b2 c1" {
		t.Errorf("missing are %q", show(got))
	}
}

func TestFallbackIsBuiltForAProfileThatCannotBeBuiltAndDoesNotRun(t *testing.T) {
	before := parse("a1 b1 c1 d1 e1")
	got := missingStandIns(
		outcomes{"a": failing, "b": retrying, "c": building, "d": built, "e": failing, "f": failing},
		active{profiles: parse("e0")},
		func(name string) *resolve.Profile { return before[name] },
	)
	if show(got) != "a1 b1" {
		t.Errorf("stand-ins are %q", show(got))
	}
}

func TestWhatIsOnlyTriedDoesNotDecideAllPodsUntilTheStableRevisionIsBuilt(t *testing.T) {
	for _, outcome := range []profile.Outcome{building, failing, built} {
		p := makePlan(situation{
			resolution: &resolve.Resolution{Profiles: parse("a1"), Candidates: parse("a2")},
			active:     active{profiles: parse("a2")},
			builds:     builds{wanted: outcomes{"a": outcome}},
		})
		want := ""
		if outcome.Built != nil {
			want = "a1"
		}
		if got := show(p.next.profiles); got != want {
			t.Errorf("next run %q, want %q", got, want)
		}
	}
}

func TestAProfileWhoseNameIsInUseDoesNotSortTheQueue(t *testing.T) {
	p := makePlan(situation{
		resolution: &resolve.Resolution{Profiles: parse("a1:New b1:New"), SortedBy: "a"},
		builds:     builds{wanted: outcomes{"a": built, "b": built}},
		reserved:   "a",
	})
	if p.next.sortedBy != "b" {
		t.Errorf("sorted by %q", p.next.sortedBy)
	}
}

func TestTheQueueIsSortedBy(t *testing.T) {
	sorted := func(name, sort string) *resolve.Profile {
		return &resolve.Profile{SchedulerName: name, QueueSort: resolve.QueueSort{Name: sort}}
	}
	a, b, c := sorted("a", "New"), sorted("b", "New"), sorted("c", "Old")
	oldA, oldB := sorted("a", "Old"), sorted("b", "Old")
	resolution := &resolve.Resolution{SortedBy: "a", Profiles: map[string]*resolve.Profile{"a": a, "b": b, "c": c}}
	for _, test := range []struct {
		name   string
		next   []*resolve.Profile
		failed map[string]error
		last   *resolve.Profile
		held   bool
		want   string
	}{
		{"the profile that the resolution names", []*resolve.Profile{a, b, c}, nil, c, false, "a"},
		{"the same one, if another cannot be built", []*resolve.Profile{a}, map[string]error{"b": errNoLicence}, nil,
			false, "a"},
		{"one with the same order", []*resolve.Profile{b, c}, map[string]error{"a": errNoLicence}, c, false, "b"},
		{"one with the same order, even if the old instance of the first sorts differently",
			[]*resolve.Profile{oldA, b, c}, map[string]error{"a": errNoLicence}, oldA, false, "b"},
		{"the old instance, if there is no other", []*resolve.Profile{oldA, c}, map[string]error{"a": errNoLicence},
			oldA, false, "a"},
		{"the last one, if the first is new and cannot be built", []*resolve.Profile{oldB, c},
			map[string]error{"a": errNoLicence}, c, false, "c"},
		{"one with the last order, if the last one is gone", []*resolve.Profile{c}, map[string]error{"a": errNoLicence},
			oldB, false, "c"},
		{"one that runs, if there was no order before", []*resolve.Profile{c}, map[string]error{"a": errNoLicence}, nil,
			false, "c"},
		{"the first, if none runs", nil, map[string]error{"a": errNoLicence}, nil, false, "a"},
		{"the last one, while profiles that reorder the queue are held together", []*resolve.Profile{oldA, oldB, c},
			nil, oldA, true, "a"},
		{"the last one, even if a new profile has the order to come", []*resolve.Profile{oldA, b, c}, nil, oldA,
			true, "a"},
		{"one with the last order, while profiles are held and the last one is gone", []*resolve.Profile{oldA, b}, nil,
			c, true, "a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := &plan{next: active{profiles: map[string]*resolve.Profile{}}, failed: test.failed}
			for _, cfg := range test.next {
				p.next.profiles[cfg.SchedulerName] = cfg
			}
			if got := p.sorter(resolution, test.last, test.held); got != test.want {
				t.Errorf("sorted by %q, want %q", got, test.want)
			}
		})
	}
}

func TestAPassIsRepeatedWhenTheFirstRetryIsDue(t *testing.T) {
	in := func(d time.Duration) profile.Outcome {
		return profile.Outcome{Err: errors.New("no luck"), RetryAt: now.Add(d), Failed: true}
	}
	for i, test := range []struct {
		pass pass
		want time.Duration
	}{
		{pass{}, 0},
		{pass{builds: builds{wanted: outcomes{"a": built, "b": building, "c": retrying}}}, 0},
		{pass{builds: builds{wanted: outcomes{"a": in(2 * time.Second), "b": in(time.Second)}}}, time.Second},
		{pass{builds: builds{wanted: outcomes{"a": in(2 * time.Second)}, standIns: outcomes{"a": in(time.Second)}}},
			time.Second},
		{pass{builds: builds{wanted: outcomes{"a": in(0)}}}, time.Millisecond},
		{pass{builds: builds{wanted: outcomes{"a": in(-time.Hour)}}}, time.Millisecond},
		{pass{builds: builds{wanted: outcomes{"a": in(2 * time.Second)}}, recallRetry: time.Second}, time.Second},
		{pass{builds: builds{wanted: outcomes{"a": in(time.Second)}}, recallRetry: 2 * time.Second}, time.Second},
		{pass{recallRetry: time.Second}, time.Second},
	} {
		if got := test.pass.requeueAfter(now); got != test.want {
			t.Errorf("case %d: repeated after %v, want %v", i, got, test.want)
		}
	}
}

func TestProfilesAreSettledOnceEveryBuildHasEnded(t *testing.T) {
	for _, test := range []struct {
		builds builds
		want   bool
	}{
		{builds{}, true},
		{builds{wanted: outcomes{"a": built, "b": failing, "c": retrying}}, true},
		{builds{wanted: outcomes{"a": built, "b": building}}, false},
		{builds{wanted: outcomes{"a": failing}, standIns: outcomes{"a": building}}, false},
		{builds{wanted: outcomes{"a": failing}, standIns: outcomes{"a": retrying}}, false},
		{builds{wanted: outcomes{"a": failing}, standIns: outcomes{"a": failing}}, true},
		{builds{wanted: outcomes{"a": failing}, standIns: outcomes{"a": built}}, true},
	} {
		if got := test.builds.tried(); got != test.want {
			t.Errorf("%s: settled is %v", fmt.Sprint(test.builds), got)
		}
	}
}

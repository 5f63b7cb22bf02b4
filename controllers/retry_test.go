// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"errors"
	"testing"
	"time"

	"github.com/livesched/livesched/internal/scheduler/config"
)

func TestFailedBuildsAreTriedAgainLessAndLessOften(t *testing.T) {
	f := failures{}
	one, at := resolved(1, "one"), now
	if err := f.pending(one, at); err != nil || f.due(at) != 0 {
		t.Fatalf("nothing has failed, but %v is pending, due in %v", err, f.due(at))
	}
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 120, 120} {
		f.note(one, errNoLicence, at)
		want *= time.Second
		if got := f.due(at); got != want {
			t.Errorf("after %d failures: due in %v, want %v", i+1, got, want)
		}
		if err := f.pending(one, at.Add(want-1)); !errors.Is(err, errNoLicence) {
			t.Errorf("after %d failures: tried again before it is due", i+1)
		}
		at = at.Add(want)
		if err := f.pending(one, at); err != nil {
			t.Errorf("after %d failures: not tried when it is due: %v", i+1, err)
		}
		if got := f.due(at); got <= 0 {
			t.Errorf("after %d failures: due, and asked for in %v", i+1, got)
		}
	}
	f.note(one, nil, at)
	if got := f.due(at); got != 0 {
		t.Errorf("built, but due again in %v", got)
	}
}

func TestAnotherRevisionIsTriedAtOnce(t *testing.T) {
	f := failures{}
	one, two := resolved(1, "one"), resolved(2, "two")
	for range 5 {
		f.note(one, errNoLicence, now)
	}
	if err := f.pending(two, now); err != nil {
		t.Errorf("the new revision is held up by the old one: %v", err)
	}
	f.note(two, errNoLicence, now)
	if got := f.due(now); got != firstRetry {
		t.Errorf("due in %v: the new revision has failed only once", got)
	}
}

func TestTheFirstOfSeveralFailedBuildsIsDue(t *testing.T) {
	f := failures{}
	one, other := resolved(1, "one"), resolved(1, "one")
	other.SchedulerName = "other"
	f.note(one, errNoLicence, now)
	f.note(one, errNoLicence, now)
	f.note(other, errNoLicence, now.Add(-500*time.Millisecond))
	if got := f.due(now); got != 500*time.Millisecond {
		t.Errorf("due in %v", got)
	}
	f.keep(&programmed{failed: map[string]error{"mine": errNoLicence}})
	if got := f.due(now); got != 2*time.Second {
		t.Errorf("due in %v after the other profile was deleted", got)
	}
}

func TestABuildThatIsBeingTriedIsNotDueAndItsRetriesStillBecomeLessOften(t *testing.T) {
	f := failures{}
	one := resolved(1, "one")
	f.note(one, errNoLicence, now)
	f.begin(one)
	f.keep(&programmed{pending: map[string]string{"mine": "is still being built"}})
	if got := f.due(now.Add(time.Hour)); got != 0 {
		t.Errorf("due in %v while it is being tried", got)
	}
	f.note(one, errNoLicence, now)
	if got := f.due(now); got != 2*firstRetry {
		t.Errorf("due in %v after the second failure", got)
	}
}

func TestSorter(t *testing.T) {
	sorted := func(name, sort string) *config.Profile {
		return &config.Profile{SchedulerName: name, QueueSort: config.QueueSort{Name: sort}}
	}
	a, b, c := sorted("a", "New"), sorted("b", "New"), sorted("c", "Old")
	oldA, oldB := sorted("a", "Old"), sorted("b", "Old")
	resolution := &config.Resolution{SortedBy: "a", Profiles: map[string]*config.Profile{"a": a, "b": b, "c": c}}
	for _, test := range []struct {
		name    string
		running []*config.Profile
		failed  map[string]error
		last    *config.Profile
		held    bool
		want    string
	}{
		{"the one that has its way", []*config.Profile{a, b, c}, nil, c, false, "a"},
		{"the same one, whoever else cannot be built", []*config.Profile{a}, map[string]error{"b": errNoLicence}, nil, false, "a"},
		{"one that asks for the same order", []*config.Profile{b, c}, map[string]error{"a": errNoLicence}, c, false, "b"},
		{"one that asks for the same order, also if the old instance of the first sorts differently", []*config.Profile{oldA, b, c}, map[string]error{"a": errNoLicence}, oldA, false, "b"},
		{"the old instance, if there is no other", []*config.Profile{oldA, c}, map[string]error{"a": errNoLicence}, oldA, false, "a"},
		{"whoever did so before, if the first to do so is new and cannot be built", []*config.Profile{oldB, c}, map[string]error{"a": errNoLicence}, c, false, "c"},
		{"one that asks for the order that there was, if whoever lent it is gone", []*config.Profile{c}, map[string]error{"a": errNoLicence}, oldB, false, "c"},
		{"whoever runs, if there was no order before", []*config.Profile{c}, map[string]error{"a": errNoLicence}, nil, false, "c"},
		{"the first, if none runs", nil, map[string]error{"a": errNoLicence}, nil, false, "a"},
		{"whoever did so before, while those that reorder the queue are held together", []*config.Profile{oldA, oldB, c}, nil, oldA, true, "a"},
		{"whoever did so before, also if a new profile asks for the order to come", []*config.Profile{oldA, b, c}, nil, oldA, true, "a"},
		{"one of the order that there was, while profiles are held and whoever lent it is gone", []*config.Profile{oldA, b}, nil, c, true, "a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			came := &programmed{running: map[string]*running{}, failed: test.failed}
			for _, cfg := range test.running {
				came.running[cfg.SchedulerName] = &running{config: cfg}
			}
			if got := came.sorter(resolution, test.last, test.held); got != test.want {
				t.Errorf("sorted by %q, want %q", got, test.want)
			}
		})
	}
}

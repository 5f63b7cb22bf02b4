// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve_test

import (
	"maps"
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

// without returns a copy of the world in which an object does not exist.
func (w *world) without(profile string) *world {
	c := w.copied()
	delete(c.profiles, profile)
	return c
}

func (w *world) copied() *world {
	c := *w
	c.profiles, c.policies = maps.Clone(w.profiles), maps.Clone(w.policies)
	return &c
}

// randomWorld returns a world in which every resolved profile runs.
func randomWorld(t *testing.T, steps int) *world {
	t.Helper()
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	w := &world{random: rand.New(rand.NewSource(seed)), profiles: map[string]v1alpha1.SchedulerProfile{},
		policies: map[string]v1alpha1.SchedulingPolicy{}}
	for range steps {
		w.live()
	}
	return w
}

// live changes the world at random and makes every resolved profile run.
func (w *world) live() *resolve.Resolution {
	w.step()
	resolution := resolve.Objects(w.input())
	w.lastGood = resolution.LastGood(running(resolution))
	return resolution
}

// outcome is the outcome of a profile, without the generations of other objects.
type outcome struct {
	Accepted, KeptLastGood bool
	Reason                 string
	Runs                   string
}

func outcomes(r *resolve.Resolution) map[string]outcome {
	all := map[string]outcome{}
	for name, result := range r.ProfileResults {
		o := outcome{Accepted: result.Accepted, KeptLastGood: result.KeptLastGood, Reason: result.Reason}
		if p := r.Profiles[result.SchedulerName]; p != nil && p.Name == name {
			o.Runs = p.Revision
		}
		all[name] = o
	}
	return all
}

func TestInvalidObjectChangesNothingForOthers(t *testing.T) {
	w := randomWorld(t, 5)
	broken := 0
	for step := range 200 {
		before := w.live()
		want := outcomes(before)
		for _, name := range slices.Sorted(maps.Keys(w.profiles)) {
			bad := w.copied()
			profile := bad.profiles[name]
			profile.Generation++
			profile.Spec.Plugins = &v1alpha1.Plugins{
				Filter: v1alpha1.PluginSet{Enabled: []v1alpha1.Plugin{{Name: "Unknown"}}}}
			bad.profiles[name] = profile
			after := resolve.Objects(bad.input())
			got := outcomes(after)
			if got[name].Accepted {
				t.Fatalf("step %d: broken profile %q is accepted", step, name)
			}
			if got[name].Runs != want[name].Runs {
				t.Errorf("step %d: profile %q ran in revision %q, and runs in %q once it is broken", step, name,
					want[name].Runs, got[name].Runs)
			}
			others := maps.Clone(want)
			delete(others, name)
			delete(got, name)
			if !maps.Equal(others, got) {
				t.Errorf("step %d: that profile %q is broken changes others:\n%s", step, name, cmp.Diff(others, got))
			}
			if before.SortedBy != after.SortedBy {
				t.Errorf("step %d: that profile %q is broken changes who sorts the queue from %q to %q", step, name,
					before.SortedBy, after.SortedBy)
			}
			broken++
		}
		for _, name := range slices.Sorted(maps.Keys(w.policies)) {
			if !before.PolicyResults[name].Accepted {
				continue
			}
			bad := w.copied()
			policy := bad.policies[name]
			policy.Generation++
			policy.Spec = v1alpha1.SchedulingPolicySpec{QueueSort: &v1alpha1.QueueSort{Name: "Unknown"}}
			bad.policies[name] = policy
			after := resolve.Objects(bad.input())
			if after.PolicyResults[name].Accepted {
				t.Fatalf("step %d: broken policy %q is accepted", step, name)
			}
			if got := outcomes(after); !maps.Equal(want, got) {
				t.Errorf("step %d: that policy %q is broken changes profiles, its own or others:\n%s", step, name,
					cmp.Diff(want, got))
			}
			broken++
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	if broken < 300 {
		t.Errorf("only %d objects were broken", broken)
	}
}

func keepsLastGood(r *resolve.Resolution) bool {
	for _, result := range r.ProfileResults {
		if result.KeptLastGood {
			return true
		}
	}
	return false
}

func TestDeletingTheWinnerRestoresTheStateWithoutIt(t *testing.T) {
	w := randomWorld(t, 5)
	settled := 0
	for step := range 1500 {
		resolution := w.live()
		if slices.ContainsFunc(slices.Collect(maps.Values(resolution.ProfileResults)),
			func(r resolve.Result) bool { return len(r.Problems) > 0 }) {
			continue // last good specs depend on the past by design
		}
		if slices.ContainsFunc(slices.Collect(maps.Values(resolution.PolicyResults)),
			func(r resolve.Result) bool { return !r.Accepted }) {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(w.profiles)) {
			after := resolve.Objects(w.without(name).input())
			never := w.without(name)
			never.lastGood = resolve.LastGood{}
			want := resolve.Objects(never.input())
			if keepsLastGood(after) {
				continue // a loser's last good spec stays active, with the rights of its age
			}
			if want.SortedBy != after.SortedBy {
				t.Errorf("step %d: without %q the queue is sorted by %q, had it never been by %q", step, name,
					after.SortedBy, want.SortedBy)
			}
			got, ideal := outcomes(after), outcomes(want)
			if !maps.Equal(ideal, got) {
				t.Errorf("step %d: without %q the others are not what they had been without it from the start:\n%s",
					step, name, cmp.Diff(ideal, got))
			}
			for other := range ideal {
				if ideal[other].Accepted && !resolution.ProfileResults[other].Accepted {
					settled++
				}
			}
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	if settled == 0 {
		t.Error("no profile ever gained anything by the end of another")
	}
}

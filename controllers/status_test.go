// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/rollout"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

var (
	longAgo = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	earlier = longAgo.Add(time.Hour)
	now     = longAgo.Add(2 * time.Hour)
)

// resolved returns the configuration of the object "mine" with the scheduler name "mine".
func resolved(generation int64, revision string) *resolve.Profile {
	return &resolve.Profile{Name: "mine", UID: "uid-mine", Generation: generation, SchedulerName: "mine",
		PolicyName: "default", Revision: revision}
}

// decides returns a running profile that was built earlier.
func decides(cfg *resolve.Profile) *running {
	return &running{config: cfg, built: earlier.Add(300 * time.Millisecond), plugins: &schedconfig.Plugins{
		Filter:         schedconfig.PluginSet{Enabled: []schedconfig.Plugin{{Name: "F"}}},
		Score:          schedconfig.PluginSet{Enabled: []schedconfig.Plugin{{Name: "S", Weight: 3}}},
		PlacementScore: schedconfig.PluginSet{Enabled: []schedconfig.Plugin{{Name: "P", Weight: 3}}},
	}}
}

func activeProfile(generation int64, revision string, since time.Time) *v1alpha1.ActiveProfile {
	return &v1alpha1.ActiveProfile{
		Generation: generation, Revision: revision, Since: metav1.NewTime(since),
		Plugins: v1alpha1.ActivePlugins{Filter: []string{"F"},
			Score: []v1alpha1.WeightedPlugin{{Name: "S", Weight: 3}}},
	}
}

func conditionAt(kind string, status metav1.ConditionStatus, reason, message string, generation int64,
	since time.Time) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message,
		ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(since)}
}

var (
	valid = resolve.Result{Accepted: true, Reason: v1alpha1.ReasonAccepted, Message: "The spec is valid",
		SchedulerName: "mine"}
	unknown = resolve.Result{Reason: v1alpha1.ReasonUnknownPlugin, Message: "spec.x: unknown plugin",
		SchedulerName: "mine"}
	nameTaken = resolve.Result{Reason: v1alpha1.ReasonSchedulerNameConflict, Message: "another has it",
		SchedulerName: "mine"}
	kept = resolve.Result{Reason: v1alpha1.ReasonUnknownPlugin, Message: "spec.x: unknown plugin",
		SchedulerName: "mine", KeptLastGood: true}
	errNoLicence = errors.New(`initializing plugin "F": no licence`)
)

func TestTheStatusOfAProfile(t *testing.T) {
	deleted := resolved(7, "gone")
	deleted.UID = "uid-deleted"
	other := resolved(1, "other")
	other.Name, other.UID = "other", "uid-other"
	withPolicy := resolved(1, "one")
	withPolicy.PolicyName, withPolicy.PolicyGeneration = "shared", 4

	for _, test := range []struct {
		name       string
		generation int64
		before     v1alpha1.SchedulerProfileStatus
		result     resolve.Result
		// toRun is the resolved configuration for the scheduler name, and running the one that
		// runs; nil means none.
		toRun   *resolve.Profile
		running *running
		failed  error
		pending string

		active     *v1alpha1.ActiveProfile
		accepted   metav1.Condition
		programmed metav1.Condition
	}{
		{
			name: "a profile that runs", generation: 1, result: valid, toRun: resolved(1, "one"),
			running:  decides(resolved(1, "one")),
			active:   activeProfile(1, "one", earlier),
			accepted: conditionAt("Accepted", "True", "Accepted", "The spec is valid", 1, now),
			programmed: conditionAt("Programmed", "True", "Programmed", "Revision one of generation 1 is active",
				1, now),
		},
		{
			name: "a profile with plugins for kinds that the API server lacks", generation: 1, result: valid,
			toRun: resolved(1, "one"),
			running: func() *running {
				r := decides(resolved(1, "one"))
				r.missing = missingKinds(
					[]schema.GroupVersionKind{{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceClaim"},
						{Version: "v1", Kind: "Foo"}})
				return r
			}(),
			active:   activeProfile(1, "one", earlier),
			accepted: conditionAt("Accepted", "True", "Accepted", "The spec is valid", 1, now),
			programmed: conditionAt("Programmed", "True", "Programmed",
				"Revision one of generation 1 is active; its plugins find no objects of kinds "+
					"that the API server does not serve: resource.k8s.io/v1 ResourceClaim, v1 Foo", 1, now),
		},
		{
			name: "a profile with a policy object", generation: 1, result: valid, toRun: withPolicy,
			running: decides(withPolicy),
			active: func() *v1alpha1.ActiveProfile {
				a := activeProfile(1, "one", earlier)
				a.Policy = &v1alpha1.ActivePolicy{Name: "shared", Generation: 4}
				return a
			}(),
			accepted: conditionAt("Accepted", "True", "Accepted", "The spec is valid", 1, now),
			programmed: conditionAt("Programmed", "True", "Programmed", "Revision one of generation 1 is active",
				1, now),
		},
		{
			name: "a generation of the same revision keeps the time", generation: 2, result: valid, toRun: resolved(2,
				"one"), running: decides(resolved(2, "one")),
			before: v1alpha1.SchedulerProfileStatus{
				Active: activeProfile(1, "one", longAgo),
				Conditions: []metav1.Condition{
					conditionAt("Accepted", "True", "Accepted", "The spec is valid", 1, longAgo),
					conditionAt("Programmed", "True", "Programmed", "Revision one of generation 1 is active", 1,
						longAgo),
				},
			},
			active:   activeProfile(2, "one", longAgo),
			accepted: conditionAt("Accepted", "True", "Accepted", "The spec is valid", 2, longAgo),
			programmed: conditionAt("Programmed", "True", "Programmed", "Revision one of generation 2 is active", 2,
				longAgo),
		},
		{
			name: "another revision does not", generation: 2, result: valid, toRun: resolved(2, "two"),
			running:  decides(resolved(2, "two")),
			before:   v1alpha1.SchedulerProfileStatus{Active: activeProfile(1, "one", longAgo)},
			active:   activeProfile(2, "two", earlier),
			accepted: conditionAt("Accepted", "True", "Accepted", "The spec is valid", 2, now),
			programmed: conditionAt("Programmed", "True", "Programmed", "Revision two of generation 2 is active",
				2, now),
		},
		{
			name: "an invalid one whose last good spec stays active", generation: 3, result: kept, toRun: resolved(2,
				"two"), running: decides(resolved(2, "two")),
			before: v1alpha1.SchedulerProfileStatus{Conditions: []metav1.Condition{
				conditionAt("Accepted", "True", "Accepted", "The spec is valid", 2, longAgo),
			}},
			active:   activeProfile(2, "two", earlier),
			accepted: conditionAt("Accepted", "False", "UnknownPlugin", "spec.x: unknown plugin", 3, now),
			programmed: conditionAt("Programmed", "False", "KeptLastGood",
				"Generation 3 is not accepted; revision two of generation 2 stays active", 3, now),
		},
		{
			name: "an invalid one that never ran", generation: 1, result: unknown,
			accepted: conditionAt("Accepted", "False", "UnknownPlugin", "spec.x: unknown plugin", 1, now),
			programmed: conditionAt("Programmed", "False", "Invalid",
				"Generation 1 is not accepted, and no last good generation can run", 1, now),
		},
		{
			name: "one that lost its scheduler name to another", generation: 1, result: nameTaken, toRun: other,
			running:  decides(other),
			accepted: conditionAt("Accepted", "False", "SchedulerNameConflict", "another has it", 1, now),
			programmed: conditionAt("Programmed", "False", "Invalid",
				"Generation 1 is not accepted, and no last good generation can run", 1, now),
		},
		{
			name: "one that lost its scheduler name to another that cannot be built", generation: 1, result: nameTaken,
			toRun: other, failed: errNoLicence,
			accepted: conditionAt("Accepted", "False", "SchedulerNameConflict", "another has it", 1, now),
			programmed: conditionAt("Programmed", "False", "Invalid",
				"Generation 1 is not accepted, and no last good generation can run", 1, now),
		},
		{
			name: "one that cannot be built while its older revision runs", generation: 2, result: valid,
			toRun: resolved(2, "two"), running: decides(resolved(1, "one")), failed: errNoLicence,
			active:   activeProfile(1, "one", earlier),
			accepted: conditionAt("Accepted", "True", "Accepted", "The spec is valid", 2, now),
			programmed: conditionAt("Programmed", "False", "BuildFailed",
				`initializing plugin "F": no licence; revision one of generation 1 stays active`, 2, now),
		},
		{
			name: "one that cannot be built and never ran", generation: 1, result: valid, toRun: resolved(1, "one"),
			failed:   errNoLicence,
			accepted: conditionAt("Accepted", "True", "Accepted", "The spec is valid", 1, now),
			programmed: conditionAt("Programmed", "False", "BuildFailed",
				`initializing plugin "F": no licence; pods with this scheduler name stay pending`, 1, now),
		},
		{
			name: "one that cannot be built in the place of a deleted one", generation: 1, result: valid,
			toRun: resolved(1, "one"), running: decides(deleted), failed: errNoLicence,
			accepted: conditionAt("Accepted", "True", "Accepted", "The spec is valid", 1, now),
			programmed: conditionAt("Programmed", "False", "BuildFailed",
				`initializing plugin "F": no licence; revision gone of a deleted SchedulerProfile stays active`,
				1, now),
		},
		{
			name: "one that is still being built", generation: 2, result: valid, toRun: resolved(2, "two"),
			running: decides(resolved(1, "one")), pending: "is still being built",
			active:   activeProfile(1, "one", earlier),
			accepted: conditionAt("Accepted", "True", "Accepted", "The spec is valid", 2, now),
			programmed: conditionAt("Programmed", "Unknown", "Pending",
				"Generation 2 is still being built; revision one of generation 1 stays active", 2, now),
		},
		{
			name: "one that is still being built for the first time", generation: 1, result: valid,
			toRun: resolved(1, "one"), pending: "is still being built",
			accepted: conditionAt("Accepted", "True", "Accepted", "The spec is valid", 1, now),
			programmed: conditionAt("Programmed", "Unknown", "Pending",
				"Generation 1 is still being built; pods with this scheduler name stay pending", 1, now),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			object := &v1alpha1.SchedulerProfile{
				ObjectMeta: metav1.ObjectMeta{Name: "mine", UID: "uid-mine", Generation: test.generation},
				Status:     test.before,
			}
			untouched := object.DeepCopy()
			resolution := &resolve.Resolution{ProfileResults: map[string]resolve.Result{"mine": test.result},
				Profiles: map[string]*resolve.Profile{}}
			s := &state{resolution: resolution, running: map[string]*running{}, failed: map[string]error{}}
			if test.toRun != nil {
				resolution.Profiles["mine"] = test.toRun
			}
			if test.running != nil {
				s.running["mine"] = test.running
			}
			if test.failed != nil {
				s.failed["mine"] = test.failed
			}
			s.pending = map[string]string{"mine": test.pending}
			want := &v1alpha1.SchedulerProfileStatus{
				ObservedGeneration: test.generation,
				SchedulerName:      "mine",
				Active:             test.active,
				Conditions:         summarized(test.generation, test.accepted, test.programmed),
			}
			got := s.profileStatus(object, now)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(untouched, object); diff != "" {
				t.Errorf("the object was changed: %s", diff)
			}

			object.Status = *got
			if diff := cmp.Diff(got, s.profileStatus(object, now.Add(time.Hour))); diff != "" {
				t.Errorf("it changes when looked at again: %s", diff)
			}
		})
	}
}

func TestTheStatusOfAPolicy(t *testing.T) {
	profiles := func(r resolve.Result, names ...string) resolve.Result {
		r.Profiles, r.SchedulerName = names, ""
		return r
	}
	of := func(generation int64) resolve.GoodPolicy {
		return resolve.GoodPolicy{UID: "uid", Generation: generation}
	}
	for _, test := range []struct {
		name   string
		result resolve.Result
		failed map[string]error
		// pending is a scheduler name.
		pending string
		// running are the policies that active revisions build on, by profile.
		running map[string]resolve.GoodPolicy

		// users are the profiles in the status, those of the result if it is nil.
		users                []string
		accepted, programmed metav1.Condition
	}{
		{
			name:    "one that an accepted profile uses, and the active revision of a rejected one",
			result:  profiles(valid, "b"),
			running: map[string]resolve.GoodPolicy{"a": of(2), "b": of(2)}, users: []string{"a", "b"},
			accepted: conditionAt("Accepted", "True", "Accepted", "The spec is valid", 2, now),
			programmed: conditionAt("Programmed", "True", "Programmed", "Generation 2 is active in profiles a, b",
				2, now),
		},
		{
			name: "one of which a rejected profile keeps an older generation", result: profiles(valid, "b"),
			running: map[string]resolve.GoodPolicy{"a": of(1), "b": of(2)}, users: []string{"a", "b"},
			accepted: conditionAt("Accepted", "True", "Accepted", "The spec is valid", 2, now),
			programmed: conditionAt("Programmed", "True", "Programmed",
				"Generation 2 is active in profile b; an older one stays active in profile a", 2, now),
		},
		{
			name: "one that only a rejected profile uses, in an older generation", result: profiles(valid),
			running: map[string]resolve.GoodPolicy{"a": of(1)}, users: []string{"a"},
			accepted: conditionAt("Accepted", "True", "Accepted", "The spec is valid", 2, now),
			programmed: conditionAt("Programmed", "True", "Programmed",
				"No accepted profile uses this policy; an older generation stays active in profile a", 2, now),
		},
		{
			name:   "one that was deleted and created again, of which a profile keeps the former one",
			result: profiles(valid), users: []string{"a"},
			running:  map[string]resolve.GoodPolicy{"a": {UID: "former", Generation: 2}},
			accepted: conditionAt("Accepted", "True", "Accepted", "The spec is valid", 2, now),
			programmed: conditionAt("Programmed", "True", "Programmed",
				"No accepted profile uses this policy; an older generation stays active in profile a", 2, now),
		},
		{
			name: "one that a deleted profile and one on the built-in defaults use", result: profiles(valid),
			running:    map[string]resolve.GoodPolicy{"deleted": of(2), "c": {}},
			accepted:   conditionAt("Accepted", "True", "Accepted", "The spec is valid", 2, now),
			programmed: conditionAt("Programmed", "True", "Programmed", "No accepted profile uses this policy", 2, now),
		},
		{
			name: "one that profiles use", result: profiles(valid, "a", "b"),
			accepted: conditionAt("Accepted", "True", "Accepted", "The spec is valid", 2, now),
			programmed: conditionAt("Programmed", "True", "Programmed", "Generation 2 is active in profiles a, b",
				2, now),
		},
		{
			name: "one that no profile uses", result: profiles(valid),
			accepted:   conditionAt("Accepted", "True", "Accepted", "The spec is valid", 2, now),
			programmed: conditionAt("Programmed", "True", "Programmed", "No accepted profile uses this policy", 2, now),
		},
		{
			name: "one with which some profiles cannot be built", result: profiles(valid, "a", "b", "c"),
			failed:   map[string]error{"name-a": errNoLicence, "name-c": errNoLicence},
			accepted: conditionAt("Accepted", "True", "Accepted", "The spec is valid", 2, now),
			programmed: conditionAt("Programmed", "False", "BuildFailed",
				"Generation 2 could not be built into profiles a, c; see the profile status for the error", 2, now),
		},
		{
			name: "one with which a profile is still being built", result: profiles(valid, "a", "b"), pending: "name-b",
			accepted: conditionAt("Accepted", "True", "Accepted", "The spec is valid", 2, now),
			programmed: conditionAt("Programmed", "Unknown", "Pending",
				"Generation 2 is still being built into profile b", 2, now),
		},
		{
			name: "failures of profiles with another policy", result: profiles(valid, "a"),
			failed:     map[string]error{"name-b": errNoLicence},
			accepted:   conditionAt("Accepted", "True", "Accepted", "The spec is valid", 2, now),
			programmed: conditionAt("Programmed", "True", "Programmed", "Generation 2 is active in profile a", 2, now),
		},
		{
			name: "an invalid one whose last good spec stays active", result: profiles(kept, "a"),
			accepted: conditionAt("Accepted", "False", "UnknownPlugin", "spec.x: unknown plugin", 2, now),
			programmed: conditionAt("Programmed", "False", "KeptLastGood",
				"Generation 2 is not accepted; the last good generation stays active", 2, now),
		},
		{
			name: "an invalid one that never was valid", result: profiles(unknown),
			accepted: conditionAt("Accepted", "False", "UnknownPlugin", "spec.x: unknown plugin", 2, now),
			programmed: conditionAt("Programmed", "False", "Invalid",
				"Generation 2 is not accepted, and no last good generation can run", 2, now),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			object := &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "uid", Generation: 2}}
			resolution := &resolve.Resolution{
				PolicyResults: map[string]resolve.Result{"p": test.result},
				ProfileResults: map[string]resolve.Result{
					"a": {Accepted: true, SchedulerName: "name-a"}, "b": {Accepted: true, SchedulerName: "name-b"},
					"c": {Accepted: true, SchedulerName: "name-c"},
				},
			}
			if test.users == nil {
				test.users = test.result.Profiles
			}
			want := &v1alpha1.SchedulingPolicyStatus{
				ObservedGeneration: 2,
				Profiles:           test.users,
				ProfileCount:       int32(len(test.users)),
				Conditions:         summarized(2, test.accepted, test.programmed),
			}
			s := &state{resolution: resolution, running: map[string]*running{}, failed: test.failed,
				pending: map[string]string{test.pending: "is still being built"}}
			for name, policy := range test.running {
				s.running["name-"+name] = &running{config: &resolve.Profile{Name: name, PolicyName: "p",
					PolicyGeneration: policy.Generation, Source: resolve.GoodProfile{Policy: &policy}}}
			}
			got := s.policyStatus(object, now)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			object.Status = *got
			if diff := cmp.Diff(got, s.policyStatus(object, now.Add(time.Hour))); diff != "" {
				t.Errorf("it changes when looked at again: %s", diff)
			}
		})
	}
}

func TestThePolicyDescribesTheRollOutsOfItsPresentSpec(t *testing.T) {
	object := &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "uid", Generation: 2}}
	for _, test := range []struct {
		name string
		// running is the policy that the running spec builds on, and elsewhere is true if the
		// present one builds on another.
		running        resolve.GoodPolicy
		elsewhere      bool
		stage          rollout.Stage
		tried, aborted []string
	}{
		{name: "another generation, while the present one is tried",
			running: resolve.GoodPolicy{UID: "uid", Generation: 1}, stage: rollout.Canary, tried: []string{"a"}},
		{name: "another generation, after the present one was taken back",
			running: resolve.GoodPolicy{UID: "uid", Generation: 1}, stage: rollout.Aborted, aborted: []string{"a"}},
		{name: "another generation, of which the present one is about to take over",
			running: resolve.GoodPolicy{UID: "uid", Generation: 1}, stage: rollout.Promoted},
		{name: "the present generation",
			running: resolve.GoodPolicy{UID: "uid", Generation: 2}, stage: rollout.Canary},
		{name: "the same generation of a policy that was deleted, while that of the new one is tried",
			running: resolve.GoodPolicy{UID: "former", Generation: 2}, stage: rollout.Canary, tried: []string{"a"}},
		{name: "the same generation of a policy that was deleted, after that of the new one was taken back",
			running: resolve.GoodPolicy{UID: "former", Generation: 2}, stage: rollout.Aborted, aborted: []string{"a"}},
		{name: "another policy, while a spec that builds on this one is tried",
			running: resolve.GoodPolicy{UID: "other", Generation: 2}, stage: rollout.Canary, tried: []string{"a"}},
		{name: "another generation, while a spec that builds on another policy is tried",
			running: resolve.GoodPolicy{UID: "uid", Generation: 1}, elsewhere: true, stage: rollout.Canary},
	} {
		t.Run(test.name, func(t *testing.T) {
			result := resolve.Result{Accepted: true, Profiles: []string{"a"}}
			if test.elsewhere {
				result.Profiles = nil
			}
			s := &state{
				resolution: &resolve.Resolution{PolicyResults: map[string]resolve.Result{"p": result},
					ProfileResults: map[string]resolve.Result{"a": {Accepted: true, SchedulerName: "a"}}},
				running: map[string]*running{"a": {config: &resolve.Profile{Name: "a", UID: "uid-a", PolicyName: "p",
					PolicyGeneration: test.running.Generation, Source: resolve.GoodProfile{Policy: &test.running}}}},
				rollouts: rollouts{"uid-a": {state: rollout.State{Stage: test.stage}}},
			}
			tried, aborted := s.triedIn(object)
			if !slices.Equal(tried, test.tried) || !slices.Equal(aborted, test.aborted) {
				t.Errorf("tried in %v, aborted in %v; want %v and %v", tried, aborted, test.tried, test.aborted)
			}
		})
	}
}

func TestConditionMessagesAreBounded(t *testing.T) {
	object := &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: "mine", UID: types.UID("uid-mine"),
		Generation: 1}}
	resolution := &resolve.Resolution{
		ProfileResults: map[string]resolve.Result{"mine": valid},
		Profiles:       map[string]*resolve.Profile{"mine": resolved(1, "one")},
	}
	s := &state{resolution: resolution, failed: map[string]error{"mine": errors.New(strings.Repeat("ß", 20_000))}}
	status := s.profileStatus(object, now)
	message := status.Conditions[1].Message
	if len(message) > maxConditionMessage || len(message) < maxConditionMessage-8 ||
		!strings.HasSuffix(message, "ß ...") {
		t.Errorf("%d bytes, ending in %q", len(message), message[len(message)-12:])
	}
	object.Status = *status
	if diff := cmp.Diff(status, s.profileStatus(object, now)); diff != "" {
		t.Errorf("it changes when looked at again: %s", diff)
	}
}

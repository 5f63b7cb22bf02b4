// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/history"
	"github.com/livesched/livesched/internal/rollout"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

func TestLastGoodSpecsOfAProfileAreTheStoredAndTheRunning(t *testing.T) {
	// Generations of a profile and its policy; 0 is none.
	type spec struct{ profile, policy int64 }
	stored := func(specs ...spec) []history.Revision {
		var all []history.Revision
		for i, s := range specs {
			r := history.Revision{Number: int64(i + 1), UID: "u", Generation: s.profile,
				Profile: &v1alpha1.SchedulerProfileSpec{}}
			if s.policy > 0 {
				r.Policy = &history.Policy{Name: "q", UID: "q", Generation: s.policy}
			}
			all = append(all, r)
		}
		return all
	}
	ran := func(s spec) []resolve.GoodProfile {
		good := resolve.GoodProfile{UID: "u", Generation: s.profile}
		if s.policy > 0 {
			good.Policy = &resolve.GoodPolicy{Name: "q", UID: "q", Generation: s.policy}
		}
		return []resolve.GoodProfile{good}
	}
	for _, test := range []struct {
		name   string
		stored []history.Revision
		ran    []resolve.GoodProfile
		want   string
	}{
		{"nothing", nil, nil, "[]"},
		{"at the start", stored(spec{1, 0}, spec{2, 1}, spec{2, 3}), nil, "[2/3 2/1 1/0]"},
		{"nothing was stored", nil, ran(spec{2, 1}), "[2/1]"},
		{"the leader before has stored more", stored(spec{1, 0}, spec{3, 0}), ran(spec{1, 0}), "[3/0 1/0]"},
		{"the leader before has not come to store it", stored(spec{1, 0}, spec{3, 0}), ran(spec{4, 0}),
			"[4/0 3/0 1/0]"},
		{"nor what a change of the policy made", stored(spec{1, 1}), ran(spec{1, 2}), "[1/2 1/1]"},
		{"they agree", stored(spec{1, 1}, spec{1, 2}), ran(spec{1, 2}), "[1/2 1/1]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			shown := []string{}
			for _, good := range goodProfiles(test.stored, test.ran, nil) {
				var policy int64
				if good.Policy != nil {
					policy = good.Policy.Generation
				}
				shown = append(shown, fmt.Sprintf("%d/%d", good.Generation, policy))
			}
			if got := fmt.Sprint(shown); got != test.want {
				t.Errorf("goes on: %s, want %s", got, test.want)
			}
		})
	}
}

func TestLastGoodSpecsOfAPolicyAreTheStoredAndTheAccepted(t *testing.T) {
	stored := []history.Revision{
		{UID: "q", Generation: 1, Policy: &history.Policy{Name: "q", UID: "q", Generation: 1}},
		{UID: "q", Generation: 3, Policy: &history.Policy{Name: "q", UID: "q", Generation: 3}},
	}
	generations := func(all []resolve.GoodPolicy) []int64 {
		var generations []int64
		for _, good := range all {
			generations = append(generations, good.Generation)
		}
		return generations
	}
	for accepted, want := range map[int64][]int64{1: {3, 1}, 3: {3, 1}, 4: {4, 3, 1}} {
		got := generations(goodPolicies(stored, []resolve.GoodPolicy{{Name: "q", UID: "q", Generation: accepted}}))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("accepted was %d:\n%s", accepted, diff)
		}
	}
	if got := generations(goodPolicies(stored, []resolve.GoodPolicy{{Name: "q", UID: "another", Generation: 9}})); len(
		got) != 2 {
		t.Errorf("another object's goes on: %v", got)
	}
}

func TestStoredPoliciesHaveTheSecretsThatTheReplicaHolds(t *testing.T) {
	secrets := func(ca string) map[types.NamespacedName]resolve.Secret {
		return map[types.NamespacedName]resolve.Secret{someSecret: resolve.NewSecret(secretOf(ca))}
	}
	stored := func(generation int64) history.Revision {
		return history.Revision{UID: "u", Generation: 1, Profile: &v1alpha1.SchedulerProfileSpec{},
			Policy: &history.Policy{Name: "q", UID: "q", Generation: generation}}
	}
	ranWith := resolve.GoodPolicy{Name: "q", UID: "q", Generation: 2, Secrets: secrets("ran")}
	accepted := resolve.GoodPolicy{Name: "q", UID: "q", Generation: 3, Secrets: secrets("accepted")}
	profiles := goodProfiles([]history.Revision{stored(1), stored(2), stored(3)},
		[]resolve.GoodProfile{{UID: "u", Generation: 1, Policy: &ranWith}},
		map[string][]resolve.GoodPolicy{"q": {accepted}})
	policies := goodPolicies([]history.Revision{stored(2), stored(3)}, []resolve.GoodPolicy{accepted})
	got := []map[types.NamespacedName]resolve.Secret{policies[0].Secrets, policies[1].Secrets}
	for _, profile := range profiles {
		got = append(got, profile.Policy.Secrets)
	}
	want := []map[types.NamespacedName]resolve.Secret{secrets("accepted"), nil, secrets("accepted"),
		secrets("ran"), nil}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAReadOfTheRevisionsThatHangsHoldsNothingUpForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		released := make(chan struct{})
		scheme := runtime.NewScheme()
		if err := errors.Join(appsv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
			t.Fatal(err)
		}
		archive := &history.Archive{Namespace: "n", Client: fakeclient.NewClientBuilder().WithScheme(scheme).
			WithInterceptorFuncs(interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
					options ...client.ListOption) error {
					select {
					case <-released:
						return c.List(ctx, list, options...)
					case <-ctx.Done():
						return ctx.Err()
					}
				},
			}).Build()}
		ctx, end := context.WithCancel(logr.NewContext(t.Context(), logr.Discard()))
		defer end()
		r := &ProfileReconciler{Config: Config{Archive: archive, Direct: archive.Client, Clock: clock.RealClock{}}}
		took := func(p *pass) (time.Duration, error) {
			start := time.Now()
			err := r.recall(ctx, p)
			return time.Since(start), err
		}
		for i, want := range []time.Duration{recallPatience, 0} {
			if wait, err := took(&pass{}); err != nil || wait != want || r.memory.recalled ||
				!errors.Is(r.memory.failed, errReading) {
				t.Errorf("pass %d: waited for %v, %v; recalled: %v, failed: %v", i, wait, err, r.memory.recalled,
					r.memory.failed)
			}
		}
		time.Sleep(2 * readTimeout) //nolint:forbidigo // of the bubble: reads end, and the next pass begins another one
		for range 2 {
			if wait, err := took(&pass{}); err != nil || wait != 0 ||
				!errors.Is(r.memory.failed, context.DeadlineExceeded) {
				t.Errorf("waited for %v, %v; failed: %v", wait, err, r.memory.failed)
			}
		}

		close(released)
		synctest.Wait()
		if wait, err := took(&pass{}); err != nil || wait != 0 || !r.memory.recalled || r.memory.leading ||
			r.memory.failed != nil {
			t.Errorf("after the answer: waited for %v, %v; recalled: %v, failed: %v", wait, err, r.memory.recalled,
				r.memory.failed)
		}
		if wait, err := took(&pass{leading: true}); err != nil || wait != 0 || !r.memory.leading {
			t.Errorf("as the leader: waited for %v, %v", wait, err)
		}
	})
}

func TestALeaderReadsTheRevisionsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists := make(chan chan error, 2)
		archive := &history.Archive{Namespace: "n",
			Client: fakeclient.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				List: func(_ context.Context, _ client.WithWatch, list client.ObjectList,
					_ ...client.ListOption) error {
					if _, ok := list.(*v1alpha1.SchedulerProfileList); ok {
						return nil
					}
					answer := make(chan error)
					lists <- answer
					return <-answer
				},
			}).Build()}
		ctx := logr.NewContext(t.Context(), logr.Discard())
		r := &ProfileReconciler{Config: Config{Archive: archive, Direct: archive.Client, Clock: clock.RealClock{}}}
		if err := r.recall(ctx, &pass{}); err != nil || r.memory.recalled {
			t.Fatalf("recalled: %v, %v", r.memory.recalled, err)
		}
		(<-lists) <- nil // the read that began as a follower
		synctest.Wait()
		for range 2 {
			if err := r.recall(ctx, &pass{leading: true}); err != nil || r.memory.recalled {
				t.Fatalf("recalled: %v, %v", r.memory.recalled, err)
			}
		}
		(<-lists) <- nil
		synctest.Wait()
		if err := r.recall(ctx, &pass{leading: true}); err != nil || !r.memory.leading {
			t.Errorf("recalled: %v, %v", r.memory.recalled, err)
		}
	})
}

func TestTheRevisionsAreReadAgainWhenEtcdWasRestored(t *testing.T) {
	object := func(uid types.UID, version string, observed int64) v1alpha1.SchedulerProfile {
		p := v1alpha1.SchedulerProfile{}
		p.UID, p.ResourceVersion, p.Status.ObservedGeneration = uid, version, observed
		return p
	}
	type objs = []v1alpha1.SchedulerProfile
	for name, test := range map[string]struct {
		before, after objs
		restored      bool
	}{
		"an update":                  {objs{object("a", "9", 1)}, objs{object("a", "10", 1)}, false},
		"a deletion":                 {objs{object("a", "9", 1)}, nil, false},
		"a creation":                 {nil, objs{object("a", "9", 0)}, false},
		"an earlier version":         {objs{object("a", "10", 1)}, objs{object("a", "9", 1)}, true},
		"a deleted one that is back": {objs{object("b", "9", 1)}, objs{object("a", "8", 1)}, true},
	} {
		m := memory{}
		if m.seesRestore(&objects{profiles: test.before}) {
			t.Errorf("%s: etcd was restored before the first pass", name)
		}
		if got := m.seesRestore(&objects{profiles: test.after}); got != test.restored {
			t.Errorf("%s: restored is %v", name, got)
		}
		if m.seesRestore(&objects{profiles: test.after}) {
			t.Errorf("%s: etcd was restored again", name)
		}
	}
}

func TestANewLeaderRecallsWhatTheLastOneWrote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		profile := &v1alpha1.SchedulerProfile{}
		profile.Name, profile.UID = "mine", "u"
		profile.Status.Rollout = &v1alpha1.RolloutStatus{CanaryRevision: "new", Stage: string(rollout.Aborted)}
		scheme := runtime.NewScheme()
		if err := errors.Join(appsv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
			t.Fatal(err)
		}
		direct := fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(profile).Build()
		archive := &history.Archive{Namespace: "n", Client: direct}
		r := &ProfileReconciler{Config: Config{Archive: archive, Direct: direct, Clock: clock.RealClock{}}}
		if err := r.recall(logr.NewContext(t.Context(), logr.Discard()), &pass{leading: true}); err != nil {
			t.Fatal(err)
		}
		for version, want := range map[string]rollout.Stage{"1": rollout.Aborted, "5000": rollout.Canary} {
			cached := profile.DeepCopy()
			cached.ResourceVersion, cached.Status.Rollout.Stage = version, string(rollout.Canary)
			got := r.last.nextRollout(r.memory.newest(cached), &resolve.Profile{Revision: "new"}, true, now)
			if got.state.Stage != want {
				t.Errorf("with version %s in the cache, the roll-out is in stage %s, want %s", version, got.state.Stage,
					want)
			}
		}
	})
}

func TestRetriesBecomeLessAndLessFrequent(t *testing.T) {
	m := memory{failed: errReading}
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		if got := m.retryAfter(); got != want*time.Second {
			t.Errorf("after %d failures: %v", i+1, got)
		}
	}
	m.failed = nil
	if got := m.retryAfter(); got != 0 {
		t.Errorf("nothing has failed, and is tried again after %v", got)
	}
	m.failed = errReading
	if got := m.retryAfter(); got != time.Second {
		t.Errorf("after another failure: %v", got)
	}
}

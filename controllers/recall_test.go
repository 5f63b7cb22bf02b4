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
					if _, ok := list.(*appsv1.ControllerRevisionList); !ok {
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
		policy, another := &v1alpha1.SchedulingPolicy{}, &v1alpha1.SchedulingPolicy{}
		policy.Name, policy.UID, policy.Generation = "default", "q", 2
		another.Name, another.UID = "another", "r"
		r := recallingReconciler(t, profile, policy, another)
		// pass returns the stage of the profile's roll-out, and the policies and their generations.
		passWith := func(version string) (rollout.Stage, string, bool) {
			cached, older := profile.DeepCopy(), policy.DeepCopy()
			cached.ResourceVersion, cached.Status.Rollout.Stage = version, string(rollout.Canary)
			older.ResourceVersion, older.Generation = version, 1
			p := &pass{leading: true, objects: objects{profiles: []v1alpha1.SchedulerProfile{*cached},
				policies: []v1alpha1.SchedulingPolicy{*older}}}
			if err := r.recall(logr.NewContext(t.Context(), logr.Discard()), p); err != nil {
				t.Fatal(err)
			}
			got := r.last.nextRollout(&p.objects.profiles[0], &resolve.Profile{Revision: "new"}, true, now)
			generations := ""
			for _, q := range p.objects.policies {
				generations += fmt.Sprintf("%s:%d ", q.Name, q.Generation)
			}
			return got.state.Stage, generations, p.behind
		}
		expect := func(version string, wantStage rollout.Stage, wantPolicies string, wantBehind bool) {
			t.Helper()
			stage, policies, behind := passWith(version)
			if stage != wantStage || policies != wantPolicies || behind != wantBehind {
				t.Errorf("with version %s in the cache: stage %s, policies %s, behind: %v; want %s, %s, %v", version,
					stage, policies, behind, wantStage, wantPolicies, wantBehind)
			}
		}
		expect("1", rollout.Aborted, "default:2 ", true) // another was deleted
		expect("2", rollout.Aborted, "default:2 ", true)
		time.Sleep(liveFor + 1)                          //nolint:forbidigo // of the bubble
		expect("3", rollout.Canary, "default:1 ", false) // what was live is lost
		if got := (&pass{behind: true}).requeueAfter(now); got != firstRetry {
			t.Errorf("the next pass is after %v", got)
		}

		expect("1", rollout.Aborted, "default:2 ", true) // etcd was restored, so they are read again
		expect("5000", rollout.Canary, "default:1 ", false)
	})
}

// recallingReconciler returns a reconciler whose API server has some objects.
func recallingReconciler(t *testing.T, objects ...client.Object) *ProfileReconciler {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(appsv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	direct := fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	return &ProfileReconciler{Config: Config{Archive: &history.Archive{Namespace: "n", Client: direct}, Direct: direct,
		Clock: clock.RealClock{}}}
}

// TestASpecThatIsOnlyTriedDoesNotBecomeTheLastGood has a replica that did not know the stored
// revisions when it received a spec, and so ran it at once.
func TestASpecThatIsOnlyTriedDoesNotBecomeTheLastGood(t *testing.T) {
	const promoted = string(rollout.Promoted)
	for name, test := range map[string]struct {
		strategy  v1alpha1.RolloutStrategy
		status    *v1alpha1.RolloutStatus
		ledBefore bool
		unstored  bool
		want      int64
	}{
		"the leader tries it": {v1alpha1.RolloutCanary,
			&v1alpha1.RolloutStatus{StableRevision: "old", CanaryRevision: "new", Stage: "Canary"}, false, false, 1},
		"the leader has taken it back": {v1alpha1.RolloutCanary,
			&v1alpha1.RolloutStatus{StableRevision: "old", CanaryRevision: "new", Stage: "Aborted"}, false, false, 1},
		"the leader ended before it wrote anything": {v1alpha1.RolloutCanary, nil, false, false, 1},
		"the leader has promoted it": {v1alpha1.RolloutCanary,
			&v1alpha1.RolloutStatus{StableRevision: "old", CanaryRevision: "new", Stage: promoted}, false, false, 2},
		"the leader tries the next one": {v1alpha1.RolloutCanary,
			&v1alpha1.RolloutStatus{StableRevision: "new", CanaryRevision: "newer", Stage: "Canary"}, false, false, 2},
		"it takes effect at once":          {v1alpha1.RolloutImmediate, nil, false, false, 2},
		"this replica led, and decided it": {v1alpha1.RolloutCanary, nil, true, false, 2},
		"no revision is stored":            {v1alpha1.RolloutCanary, nil, false, true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			object := v1alpha1.SchedulerProfile{}
			object.Name, object.UID, object.Generation, object.Status.Rollout = "mine", "u", 2, test.status
			object.Spec.Rollout = &v1alpha1.RolloutSpec{Strategy: test.strategy}
			ran := resolve.GoodProfile{UID: "u", Generation: 2, Spec: object.Spec}
			r := recallingReconciler(t)
			if !test.unstored {
				old := &history.Revision{Kind: history.KindProfile, ObjectName: "mine", UID: "u", Generation: 1,
					Hash: "old", Profile: &v1alpha1.SchedulerProfileSpec{}}
				if _, err := r.Archive.Store(t.Context(), old, true); err != nil {
					t.Fatal(err)
				}
			}
			r.memory.leading = test.ledBefore
			r.last.good.Profiles = map[string][]resolve.GoodProfile{"mine": {ran}}
			r.last.active.profiles = map[string]*resolve.Profile{
				"canary/mine": {UID: "u", Name: "mine", SchedulerName: "mine", Revision: "newer", Canary: true},
				"mine":        {UID: "u", Name: "mine", SchedulerName: "mine", Revision: "new", Source: ran},
			}
			p := &pass{leading: true, objects: objects{profiles: []v1alpha1.SchedulerProfile{object}}}
			if err := r.recall(logr.NewContext(t.Context(), logr.Discard()), p); err != nil {
				t.Fatal(err)
			}
			if got := r.last.good.Profiles["mine"][0].Generation; got != test.want {
				t.Errorf("the last good spec is that of generation %d, want %d", got, test.want)
			}
		})
	}
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

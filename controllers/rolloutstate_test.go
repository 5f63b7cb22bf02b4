// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/rollout"
	"github.com/livesched/livesched/internal/rollout/evidence"
	"github.com/livesched/livesched/internal/scheduler/resolve"
	testobjects "github.com/livesched/livesched/test/objects"
)

// rolledOutObject returns the object of a roll-out.
func rolledOutObject(canary string) *v1alpha1.SchedulerProfile {
	p := testobjects.Profile("mine", "rollout: {strategy: Canary, canary: {"+canary+"}}")
	p.UID = "u"
	return p
}

// TestTheNextLeaderRecallsARollOut writes random states into the status, and reads them.
func TestTheNextLeaderRecallsARollOut(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	candidate := &resolve.Profile{Revision: "new"}
	for range 1000 {
		object := rolledOutObject("")
		o := &rolloutOf{stable: "old", canary: "new", plan: resolve.RolloutPlan(&object.Spec),
			before: &rollout.Observed{},
			state: rollout.State{Stage: rollout.Stages[r.IntN(len(rollout.Stages))], Since: now.Add(-time.Hour),
				Paused: r.IntN(2) == 0, Reason: fmt.Sprint("reason ", r.IntN(3))},
			seen: randomObserved(r), command: fmt.Sprint("command ", r.IntN(3))}
		if o.state.Stage == rollout.Canary {
			o.state.Step = r.IntN(len(o.plan.Steps))
		}
		s := &state{rollouts: rollouts{object.UID: o}}
		object.Status.Rollout = s.rolloutStatus(object)

		got := recalled(object, candidate, now)
		want := o.seen
		if o.state.Stage == rollout.Shadow {
			want = &rollout.Observed{}
		}
		if diff := cmp.Diff(want, got.before, cmpopts.EquateEmpty(), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
			t.Fatalf("observed: (-want +got)\n%s\nstatus %+v", diff, object.Status.Rollout)
		}
		if diff := cmp.Diff(o.state, got.state); diff != "" || got.command != o.command {
			t.Fatalf("command %q, want %q; state: (-want +got)\n%s", got.command, o.command, diff)
		}
		if other := recalled(object, candidate, now); other.salt == got.salt {
			t.Fatal("two leaders draw the same owners")
		}

		candidate := &resolve.Profile{Revision: "newer"}
		if got := recalled(object, candidate, now); got.state != rollout.Start(now) || got.before.Stable != 0 {
			t.Fatalf("another revision goes on in %+v", got.state)
		}
	}
}

// randomObserved returns what was observed of both metrics or one.
func randomObserved(r *rand.Rand) *rollout.Observed {
	o := &rollout.Observed{Compared: r.IntN(50), Stable: r.IntN(50), New: r.IntN(50),
		Paired: map[rollout.Metric]evidence.Paired{}, Owners: map[rollout.Metric]*evidence.Owners{}}
	for _, metric := range rollout.Metrics {
		if r.IntN(2) == 0 {
			pairs := evidence.Paired{Differing: 1 + r.IntN(20)}
			pairs.Against = r.IntN(pairs.Differing + 1)
			o.Paired[metric] = pairs
		}
		if r.IntN(2) == 0 {
			owners := &evidence.Owners{}
			for range 1 + r.IntN(20) {
				owners.Add(float64(1+r.IntN(99))/100, r.IntN(3) == 0)
			}
			o.Owners[metric] = owners
		}
	}
	return o
}

func TestAStatusThatNobodyWroteDoesNoHarm(t *testing.T) {
	now := time.Now()
	candidate := &resolve.Profile{Revision: "new"}
	for name, status := range map[string]v1alpha1.RolloutStatus{
		"an unknown stage": {CanaryRevision: "new", Stage: "Holiday"},
		"a step that is not there": {CanaryRevision: "new", Stage: "Canary", CurrentStepIndex: ptr.To(int32(-5)),
			Evidence: []v1alpha1.RolloutEvidence{{MetricName: v1alpha1.RolloutUnschedulable,
				Failed: []v1alpha1.FailedOwners{{Weight: 0, Owners: 3}, {Weight: 100, Owners: 3}, {Weight: -1, Owners: 3}}}}},
		"a step beyond the last": {CanaryRevision: "new", Stage: "Canary", CurrentStepIndex: ptr.To(int32(500))},
	} {
		object := rolledOutObject("")
		object.Status.Rollout = &status
		o := recalled(object, candidate, now)
		next, _ := o.state.Next(now, resolve.RolloutPlan(&object.Spec), o.before, "")
		if next.Ended() || next.Step < 0 || next.Weight(resolve.RolloutPlan(&object.Spec)) > 5 {
			t.Errorf("%s: goes on in %+v", name, next)
		}
	}
}

func TestACommandIsFollowedOnce(t *testing.T) {
	o := &rolloutOf{canary: "new"}
	object := rolledOutObject("")
	for _, step := range []struct {
		annotation string
		want       rollout.Command
	}{
		{"", ""}, {"promote", ""}, {"promote:old", ""}, {"promote:new", rollout.Promote}, {"promote:new", ""},
		{"promote:new:2", rollout.Promote}, {"promote:new:2", ""}, {"pause:new", rollout.Pause}, {"promote:old", ""},
		{"pause:new", ""},
	} {
		object.Annotations = map[string]string{v1alpha1.AnnotationRollout: step.annotation}
		if got := o.follow(object); got != step.want {
			t.Errorf("%q: followed %q, want %q", step.annotation, got, step.want)
		}
	}
}

// TestACommandThatStaysIsNotFollowedAgain follows the annotation of a repository, which nobody
// removes, until the same revision is rolled out again.
func TestACommandThatStaysIsNotFollowedAgain(t *testing.T) {
	for name, test := range map[string]struct {
		status     *v1alpha1.RolloutStatus
		annotation string
		strategy   v1alpha1.RolloutStrategy
		want       string
	}{
		"the strategy was Immediate meanwhile": {&v1alpha1.RolloutStatus{LastCommand: "abort:new"}, "abort:new",
			v1alpha1.RolloutImmediate, "abort:new"},
		"the leader ended before it wrote the status": {&v1alpha1.RolloutStatus{LastCommand: "pause:new"},
			"promote-full:r1", v1alpha1.RolloutCanary, "promote-full:r1"},
		"it is about another revision": {&v1alpha1.RolloutStatus{LastCommand: "pause:r1"}, "abort:new",
			v1alpha1.RolloutCanary, "pause:r1"},
		"there is none": {nil, "", v1alpha1.RolloutImmediate, ""},
	} {
		t.Run(name, func(t *testing.T) {
			object := rolledOutObject("")
			object.UID, object.Spec.Rollout.Strategy, object.Status.Rollout = "uid-mine", test.strategy, test.status
			object.Annotations = map[string]string{v1alpha1.AnnotationRollout: test.annotation}
			resolution := &resolve.Resolution{
				ProfileResults: map[string]resolve.Result{"mine": {Accepted: true, SchedulerName: "mine"}}}
			s := &state{running: map[string]*running{"mine": decides(resolved(1, "r1"))}, resolution: resolution}
			object.Status.Rollout = s.rolloutStatus(object)
			if test.want == "" {
				if object.Status.Rollout != nil {
					t.Fatalf("status %+v, want none", object.Status.Rollout)
				}
				return
			}
			if got := object.Status.Rollout.LastCommand; got != test.want {
				t.Errorf("last command %q, want %q", got, test.want)
			}
			revision := commandOf(object).revision
			again := recalled(object, &resolve.Profile{Revision: revision}, now)
			again.canary = revision
			if got, followed := again.follow(object), test.annotation == test.want; followed != (got == "") {
				t.Errorf("when the revision is rolled out, %q is followed", got)
			}
		})
	}
}

// TestALeaderKnowsBetterThanTheStatus has an aborted roll-out of the same revision in the status,
// which is from before the last spec.
func TestALeaderKnowsBetterThanTheStatus(t *testing.T) {
	object := rolledOutObject("")
	object.Status.Rollout = &v1alpha1.RolloutStatus{CanaryRevision: "new", Stage: string(rollout.Aborted),
		StableOwners: 7}
	decided := sets.New(object.UID)
	of := func(revision string, stage rollout.Stage, led bool) rollouts {
		return rollouts{object.UID: {canary: revision, led: led, salt: "s", state: rollout.State{Stage: stage},
			before: &rollout.Observed{Stable: 3}}}
	}
	start := rollout.Start(now).Stage
	for name, test := range map[string]struct {
		last    last
		leading bool
		stage   rollout.Stage
		stable  int
	}{
		"a new leader":               {last{}, true, rollout.Aborted, 7},
		"a follower":                 {last{decided: decided}, false, rollout.Aborted, 7},
		"it has begun to lead":       {last{rollouts: of("new", rollout.Canary, false)}, true, rollout.Aborted, 7},
		"it has led it":              {last{rollouts: of("new", rollout.Canary, true)}, true, rollout.Canary, 3},
		"another spec ran":           {last{decided: decided}, true, start, 0},
		"another was tried":          {last{decided: decided, rollouts: of("x", rollout.Canary, true)}, true, start, 0},
		"its spec was invalid":       {last{decided: sets.New[types.UID]("v")}, true, rollout.Aborted, 7},
		"the last leader decided it": {last{rollouts: of("x", rollout.Canary, false)}, true, rollout.Aborted, 7},
	} {
		got := test.last.nextRollout(object, &resolve.Profile{Revision: "new"}, test.leading, now)
		if got.state.Stage != test.stage || got.before.Stable != test.stable {
			t.Errorf("%s: goes on in %+v with %+v", name, got.state, got.before)
		}
	}
}

func TestALeaderDecidesOnceTheStoredRevisionsWereRead(t *testing.T) {
	r := &ProfileReconciler{}
	p := &pass{
		objects:    objects{profiles: []v1alpha1.SchedulerProfile{*rolledOutObject(""), *rolledOutObject("")}},
		resolution: &resolve.Resolution{ProfileResults: map[string]resolve.Result{"mine": {Accepted: true}}},
	}
	p.objects.profiles[0].Name, p.objects.profiles[0].UID = "invalid", "v"
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, "", nil)
	for _, test := range []struct {
		leading bool
		failed  error
		want    sets.Set[types.UID]
	}{
		{false, nil, sets.Set[types.UID]{}},
		{true, errReading, sets.Set[types.UID]{}},
		{true, forbidden, sets.New[types.UID]("u")},
		{true, nil, sets.New[types.UID]("u")},
	} {
		p.leading, r.memory.failed = test.leading, test.failed
		if diff := cmp.Diff(test.want, r.decided(p)); diff != "" {
			t.Errorf("leads: %v, %v: (-want +got)\n%s", test.leading, test.failed, diff)
		}
		s := &state{resolution: p.resolution, awaitsRevisions: r.memory.isBlind()}
		object := rolledOutObject("")
		object.Status.Rollout = &v1alpha1.RolloutStatus{CanaryRevision: "new", Stage: string(rollout.Aborted)}
		kept := s.rolloutStatus(object).Stage == string(rollout.Aborted)
		if want := errors.Is(test.failed, errReading); kept != want {
			t.Errorf("%v: keeps the status: %v", test.failed, kept)
		}
	}
}

// TestARestoredCommandIsNotFollowedAgain has a leader that has followed a later command than the
// one that came back with a backup of etcd.
func TestARestoredCommandIsNotFollowedAgain(t *testing.T) {
	object := rolledOutObject("")
	object.Status.Rollout = &v1alpha1.RolloutStatus{CanaryRevision: "new", Stage: string(rollout.Canary),
		LastCommand: "pause:new:1"}
	r := &ProfileReconciler{}
	l := &last{}
	follow := func(annotation string) rollout.Command {
		object.Annotations = map[string]string{v1alpha1.AnnotationRollout: annotation}
		o := l.nextRollout(object, &resolve.Profile{Revision: "new"}, true, now)
		if o.canary, o.led = "new", true; r.memory.wentBack.Has(object.UID) {
			o.skipRestored(object)
		}
		l.rollouts = rollouts{object.UID: o}
		return o.follow(object)
	}
	for _, command := range []rollout.Command{rollout.Promote, rollout.Abort} {
		if got := follow(string(command) + ":new"); got != command {
			t.Fatalf("follows %q, want %q", got, command)
		}
	}
	r.memory.wentBack = sets.New(object.UID)
	for _, annotation := range []string{"promote:new", "abort:new", "pause:new:1", ""} {
		if got := follow(annotation); got != "" {
			t.Errorf("%s was restored, and %q is followed", annotation, got)
		}
	}
	if got := follow("retry:new"); got != rollout.Retry {
		t.Errorf("a command that was not followed yet gets %q", got)
	}
	r.memory.wentBack = nil
	if got := follow("promote:new"); got != rollout.Promote {
		t.Errorf("a user who repeats a command gets %q", got)
	}
}

// nothingObserved is a Scheduler that has observed nothing of roll-outs.
type nothingObserved struct{ Scheduler }

func (nothingObserved) Observed(*resolve.Profile, rollout.Stage) *rollout.Observed {
	return &rollout.Observed{}
}

// TestALeaderThatDoesNotKnowTheRevisionsOnlyAborts has a new leader, whose cache may not have what
// the last leader has written.
func TestALeaderThatDoesNotKnowTheRevisionsOnlyAborts(t *testing.T) {
	candidate := &resolve.Profile{Revision: "new"}
	for name, test := range map[string]struct {
		failed  error
		ledThen bool
		command rollout.Command
		// blind is the stage until the revisions are read, known the one after that, if the last
		// leader had aborted the roll-out.
		blind, known rollout.Stage
	}{
		"it waits":                     {errReading, false, "", rollout.Canary, rollout.Aborted},
		"it does not promote":          {errReading, false, rollout.PromoteFull, rollout.Canary, rollout.Aborted},
		"it aborts":                    {errReading, false, rollout.Abort, rollout.Aborted, rollout.Aborted},
		"it has read them as a leader": {errReading, true, rollout.PromoteFull, rollout.Promoted, rollout.Promoted},
		"it is not allowed to read any": {apierrors.NewForbidden(schema.GroupResource{}, "", nil), false,
			rollout.PromoteFull, rollout.Promoted, rollout.Promoted},
	} {
		t.Run(name, func(t *testing.T) {
			r := &ProfileReconciler{Config: Config{Scheduler: nothingObserved{}, Clock: clock.RealClock{}}}
			r.memory.failed, r.memory.leading = test.failed, test.ledThen
			object := rolledOutObject("steps: [{pause: {}}]")
			object.Annotations = map[string]string{v1alpha1.AnnotationRollout: string(test.command) + ":new"}
			status := &v1alpha1.RolloutStatus{CanaryRevision: "new", Stage: string(rollout.Canary)}
			object.Status.Rollout = status
			pass := func() rollout.Stage {
				o := r.nextRollout(&pass{leading: true}, object, &resolve.Profile{}, candidate)
				r.last.rollouts = rollouts{object.UID: o}
				return o.state.Stage
			}
			for range 2 {
				if got := pass(); got != test.blind {
					t.Fatalf("until the revisions are read, the stage is %s, want %s", got, test.blind)
				}
			}
			r.memory.failed, r.memory.leading, status.Stage = nil, true, string(rollout.Aborted)
			if got := pass(); got != test.known {
				t.Errorf("then, the stage is %s, want %s", got, test.known)
			}
		})
	}
}

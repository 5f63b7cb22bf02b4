// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package resolve_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

func TestCandidates(t *testing.T) {
	const canary = `rollout: {strategy: Canary}, `
	first := resolveText(t, profileText("p", `percentageOfNodesToScore: 1`))
	// after resolves a spec that follows the first one.
	after := func(t *testing.T, spec string) (*resolve.Resolution, resolve.Result) {
		in := parseText(t, profileText("p", spec))
		in.LastGood, in.Profiles[0].Generation = first.LastGood(running(first)), 2
		next := resolve.Objects(in)
		return next, next.ProfileResults["p"]
	}
	for name, test := range map[string]struct {
		spec      string
		candidate bool
		runs      int64 // the generation
		refused   string
	}{
		"a change is tried":                         {spec: canary + `percentageOfNodesToScore: 2`, candidate: true, runs: 1},
		"or takes effect at once":                   {spec: `percentageOfNodesToScore: 2`, runs: 2},
		"also if that is said":                      {spec: `rollout: {strategy: Immediate}, percentageOfNodesToScore: 2`, runs: 2},
		"a spec that decides as before has nothing": {spec: canary + `percentageOfNodesToScore: 1`, runs: 2},
		"another scheduler name takes effect at once": {
			spec: canary + `schedulerName: other, percentageOfNodesToScore: 2`, runs: 2},
		"an invalid spec is not tried": {spec: canary + `percentageOfNodesToScore: 101`, runs: 1,
			refused: "percentageOfNodesToScore"},
		"nor is another order of the queue": {spec: canary +
			`plugins: {queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: "*"}]}}`, runs: 1,
			refused: `spec.rollout.strategy: the queue sort cannot change from PrioritySort to Coscheduling with the ` +
				`strategy "Canary"`},
	} {
		t.Run(name, func(t *testing.T) {
			next, result := after(t, test.spec)
			if result.Accepted != (test.refused == "") || !strings.Contains(result.Message, test.refused) {
				t.Errorf("accepted: %v, %q", result.Accepted, result.Message)
			}
			runs := next.Profiles[result.SchedulerName]
			if runs == nil || runs.Generation != test.runs || runs.Canary {
				t.Fatalf("runs %+v, want generation %d", runs, test.runs)
			}
			candidate := next.Candidates["p"]
			if (candidate != nil) != test.candidate {
				t.Fatalf("the candidate is %+v", candidate)
			}
			if candidate != nil && (candidate.Generation != 2 || candidate.Revision == runs.Revision) {
				t.Errorf("the candidate is generation %d, revision %s", candidate.Generation, candidate.Revision)
			}
		})
	}

	t.Run("a candidate runs beside the stable one, or for it", func(t *testing.T) {
		next, _ := after(t, canary+`percentageOfNodesToScore: 2`)
		candidate := next.Candidates["p"]
		next.Try(candidate.AsShadow())
		next.Try(candidate.AsCanary())
		for _, id := range []string{"p", "shadow/p", "canary/p"} {
			if cfg := next.ByID(id); cfg == nil || cfg.ID() != id {
				t.Errorf("%s is %+v", id, cfg)
			}
		}
		good := next.LastGood([]*resolve.Profile{candidate.AsCanary(), candidate.AsShadow()})
		if len(good.Profiles["p"]) != 1 || good.Profiles["p"][0].Generation != 1 {
			t.Errorf("what is tried counts as good: %+v", good)
		}
		next.Promote("p")
		if next.Profiles["p"] != candidate || len(next.Candidates) != 0 {
			t.Error("it was not promoted")
		}
	})
	t.Run("a change of the policy is tried", func(t *testing.T) {
		policy := v1alpha1.SchedulingPolicy{}
		policy.Name, policy.UID, policy.Generation = "default", "policy", 1
		in := parseText(t, profileText("p", `rollout: {strategy: Canary}`))
		in.Policies = append(in.Policies, policy)
		before := resolve.Objects(in)
		in.LastGood = before.LastGood(running(before))
		in.Policies[0].Generation, in.Policies[0].Spec.PercentageOfNodesToScore = 2, ptr.To[int32](7)
		after := resolve.Objects(in)
		if after.Profiles["p"].PolicyGeneration != 1 || after.Candidates["p"] == nil ||
			after.Candidates["p"].PolicyGeneration != 2 {
			t.Errorf("runs %+v, tries %+v", after.Profiles["p"], after.Candidates["p"])
		}
	})
	t.Run("no change is tried while it is not known whether the last good spec can run", func(t *testing.T) {
		named := types.NamespacedName{Namespace: "tls", Name: "tls"}
		in := parseText(t, policyText("default", `extenders: [{urlPrefix: "https://a", tlsConfig: {secretRef: {namespace: `+
			`tls, name: tls}}}]`), profileText("p", canary+`percentageOfNodesToScore: 2`))
		in.LastGood, in.Profiles[0].Generation = first.LastGood(running(first)), 2
		last := &in.LastGood.Profiles["p"][0]
		last.UID, last.Policy = in.Profiles[0].UID, &resolve.GoodPolicy{Name: "default", UID: in.Policies[0].UID,
			Generation: 1, Spec: in.Policies[0].Spec}
		in.Policies[0].Generation, in.Policies[0].Spec = 2, v1alpha1.SchedulingPolicySpec{}
		for _, test := range []struct {
			secret resolve.Secret
			reason string
			runs   bool
		}{
			{resolve.UnansweredSecret(errors.New("no answer yet")), v1alpha1.ReasonSecretNotReadable, false},
			{resolve.UnreadableSecret(errors.New("forbidden")), v1alpha1.ReasonAccepted, true},
		} {
			in.Secrets = map[types.NamespacedName]resolve.Secret{named: test.secret}
			in.Profiles = in.Profiles[:1]
			younger := parseText(t, profileText("younger", `schedulerName: p`)).Profiles[0]
			younger.CreationTimestamp.Time = in.Profiles[0].CreationTimestamp.Add(time.Hour)
			in.Profiles = append(in.Profiles, younger)
			next := resolve.Objects(in)
			if got := next.ProfileResults["younger"]; got.Reason != v1alpha1.ReasonSchedulerNameConflict ||
				!strings.Contains(got.Message, `the older SchedulerProfile "p" has the scheduler name`) {
				t.Errorf("a younger profile of the same scheduler name: %+v", got)
			}
			result := next.ProfileResults["p"]
			if got := next.Profiles["p"]; (got != nil) != test.runs || len(next.Candidates) > 0 ||
				result.Accepted != test.runs || result.Reason != test.reason {
				t.Errorf("runs %+v, tries %v, %+v", got, next.Candidates, result)
			}
			if want := "spec.rollout.strategy: the spec cannot be rolled out"; !test.runs &&
				(!strings.Contains(result.Message, want) || !strings.Contains(result.Message, "no answer yet")) {
				t.Errorf("message %q, want %q", result.Message, want)
			}
		}
	})
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package print

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
)

const (
	testEvidence = "14 : 1 that the new revision leaves more owners without a node"
	testReason   = "120 : 1 that the new revision evicts pods for more owners"
)

// rolledOut returns a profile with a roll-out and the steps by default, or these.
func rolledOut(reason string, status *v1alpha1.RolloutStatus, steps ...v1alpha1.CanaryStep) *v1alpha1.SchedulerProfile {
	p := &v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: "shop", Generation: 2}}
	p.Spec.Rollout = &v1alpha1.RolloutSpec{Strategy: v1alpha1.RolloutCanary}
	if steps != nil {
		p.Spec.Rollout.Canary = &v1alpha1.CanarySpec{ShadowDuration: &metav1.Duration{}, Steps: steps}
	}
	states := map[string]metav1.ConditionStatus{
		v1alpha1.ReasonProgrammed: metav1.ConditionTrue, v1alpha1.ReasonRollingOut: metav1.ConditionUnknown,
		v1alpha1.ReasonRolloutAborted: metav1.ConditionFalse, v1alpha1.ReasonBuildFailed: metav1.ConditionFalse,
	}
	p.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, ObservedGeneration: 2},
		{Type: v1alpha1.ConditionProgrammed, Status: states[reason], ObservedGeneration: 2, Reason: reason,
			Message: "The condition describes it"},
	}
	p.Status.Rollout = status
	return p
}

func TestThePrintedRollout(t *testing.T) {
	since := ptr.To(metav1.NewTime(time.Now().Add(-4 * time.Minute)))
	for name, test := range map[string]struct {
		profile      *v1alpha1.SchedulerProfile
		status, view string
	}{
		"compared": {
			profile: rolledOut(v1alpha1.ReasonRollingOut, &v1alpha1.RolloutStatus{
				Phase: v1alpha1.RolloutProgressing, StableRevision: "pdh8zspwhj", CanaryRevision: "b47874bsgc",
				Stage: "Shadow", Message: "the comparison ends at 2026-11-02T10:05:00Z", Since: since, Compared: 1200,
			}),
			status: `
schedulerprofile/shop rolls out revision b47874bsgc: Progressing, stage Shadow, 0 % of owners
  the comparison ends at 2026-11-02T10:05:00Z
  in the stage Shadow, both revisions decided pods of 1,200 owners
`,
			view: `schedulerprofile/shop: Progressing: the comparison ends at 2026-11-02T10:05:00Z

REVISION     ROLE     WEIGHT   OWNERS   DECISION TIME
pdh8zspwhj   stable   100 %    -        -
b47874bsgc   canary   0 %      -        -

● Shadow for 5m, began 4m ago
○ 5 % of owners
○ Pause for 10m
○ 50 % of owners
○ Pause for 10m
○ 100 % of owners: promoted

in the stage Shadow, both revisions decided pods of 1,200 owners
`,
		},
		"on a share of owners": {
			profile: rolledOut(v1alpha1.ReasonRollingOut, &v1alpha1.RolloutStatus{
				Phase: v1alpha1.RolloutPaused, StableRevision: "pdh8zspwhj", CanaryRevision: "b47874bsgc",
				Stage: "Canary", CurrentStepIndex: ptr.To[int32](1), Weight: 1, Since: since,
				Message: "it waits until it is promoted", StableOwners: 1190, CanaryOwners: 1,
				StableDecision: &metav1.Duration{Duration: 1234567}, CanaryDecision: &metav1.Duration{Duration: 987654},
				Evidence: []v1alpha1.RolloutEvidence{{MetricName: v1alpha1.RolloutUnschedulable, Text: testEvidence}},
			}, v1alpha1.CanaryStep{SetWeight: ptr.To[int32](1)}, v1alpha1.CanaryStep{Pause: &v1alpha1.CanaryPause{}}),
			status: `
schedulerprofile/shop rolls out revision b47874bsgc: Paused, stage Canary, step 2 of 2, 1 % of owners
  it waits until it is promoted
  revision b47874bsgc: 1 owner, 988µs for a decision in the median
  revision pdh8zspwhj: 1,190 owners, 1.23ms for a decision in the median
  Unschedulable: ` + testEvidence + `
`,
			view: `schedulerprofile/shop: Paused: it waits until it is promoted

REVISION     ROLE     WEIGHT   OWNERS   DECISION TIME
pdh8zspwhj   stable   99 %     1,190    1.23ms
b47874bsgc   canary   1 %      1        988µs

✔ 1 % of owners
● Pause until promoted, began 4m ago
○ 100 % of owners: promoted

Unschedulable: ` + testEvidence + `
`,
		},
		"taken back": {
			profile: rolledOut(v1alpha1.ReasonRolloutAborted, &v1alpha1.RolloutStatus{
				Phase: v1alpha1.RolloutDegraded, StableRevision: "pdh8zspwhj", CanaryRevision: "b47874bsgc",
				Stage: "Aborted", Message: testReason, Since: since, Compared: 12,
				Evidence: []v1alpha1.RolloutEvidence{{MetricName: v1alpha1.RolloutUnschedulable, Text: testReason}},
			}),
			status: `
schedulerprofile/shop: Programmed is False (RolloutAborted): The condition describes it

schedulerprofile/shop aborted the roll-out of revision b47874bsgc: Degraded, and revision pdh8zspwhj decides all pods
  in the stage Shadow, both revisions decided pods of 12 owners
`,
			view: `schedulerprofile/shop: Degraded: ` + testReason + `

REVISION     ROLE     WEIGHT   OWNERS   DECISION TIME
pdh8zspwhj   stable   100 %    -        -
b47874bsgc   canary   0 %      -        -

in the stage Shadow, both revisions decided pods of 12 owners
`,
		},
		"one that cannot be built": {
			profile: rolledOut(v1alpha1.ReasonBuildFailed, &v1alpha1.RolloutStatus{
				Phase: v1alpha1.RolloutProgressing, StableRevision: "pdh8zspwhj", CanaryRevision: "b47874bsgc",
				Stage: "Canary", CurrentStepIndex: ptr.To[int32](0), Weight: 1,
			}, v1alpha1.CanaryStep{SetWeight: ptr.To[int32](1)}),
			status: `
schedulerprofile/shop: Programmed is False (BuildFailed): The condition describes it

schedulerprofile/shop rolls out revision b47874bsgc: Progressing, stage Canary, step 1 of 1, 1 % of owners
  revision b47874bsgc: 0 owners
  revision pdh8zspwhj: 0 owners
`,
			view: `schedulerprofile/shop: Progressing

REVISION     ROLE     WEIGHT   OWNERS   DECISION TIME
pdh8zspwhj   stable   99 %     0        -
b47874bsgc   canary   1 %      0        -

● 1 % of owners
○ 100 % of owners: promoted

schedulerprofile/shop: Programmed is False (BuildFailed): The condition describes it
`,
		},
		"not processed": {
			profile: func() *v1alpha1.SchedulerProfile {
				p := rolledOut(v1alpha1.ReasonProgrammed, nil)
				p.Generation = 3
				return p
			}(),
			status: "\nschedulerprofile/shop: livesched has not processed generation 3 yet\n",
			view: "schedulerprofile/shop: no roll-out yet\n\n" +
				"schedulerprofile/shop: livesched has not processed generation 3 yet\n",
		},
		"none under way": {
			profile: rolledOut(v1alpha1.ReasonProgrammed, &v1alpha1.RolloutStatus{
				Phase: v1alpha1.RolloutHealthy, StableRevision: "b47874bsgc", CanaryRevision: "b47874bsgc",
				Stage: "Promoted", Weight: 100,
			}),
			view: "schedulerprofile/shop: Healthy: revision b47874bsgc decides all pods\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			if err := NewStatus([]v1alpha1.SchedulerProfile{*test.profile}, nil).
				Print(terminal.Plain(&out, 200), false); err != nil {
				t.Fatal(err)
			}
			// The table of the profiles has two lines.
			if d := cmp.Diff(test.status, strings.Join(strings.SplitAfter(out.String(), "\n")[2:], "")); d != "" {
				t.Error("status", d)
			}
			out.Reset()
			if err := NewProfileRollout(test.profile).Print(terminal.Plain(&out, 200)); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(test.view, out.String()); d != "" {
				t.Error("rollout status", d)
			}
		})
	}
}

func TestTheRolloutAsData(t *testing.T) {
	p := rolledOut(v1alpha1.ReasonRollingOut, &v1alpha1.RolloutStatus{
		Phase: v1alpha1.RolloutProgressing, CanaryRevision: "b47874bsgc", Stage: "Canary",
		CurrentStepIndex: ptr.To[int32](0), Weight: 20,
	}, v1alpha1.CanaryStep{SetWeight: ptr.To[int32](20)})
	var out strings.Builder
	if err := As(&out, YAML, NewProfileRollout(p)); err != nil {
		t.Fatal(err)
	}
	want := `canaryRevision: b47874bsgc
currentStepIndex: 0
phase: Progressing
profile: shop
stage: Canary
steps:
- stage: Canary
  state: Present
  text: 20 % of owners
- stage: Promoted
  state: ToCome
  text: '100 % of owners: promoted'
weight: 20
`
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
}

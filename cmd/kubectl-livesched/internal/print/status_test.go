// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package print

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
)

func TestThePrintedStatus(t *testing.T) {
	p := v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: "gpu", Generation: 2}}
	for _, name := range []string{v1alpha1.ConditionAccepted, v1alpha1.ConditionProgrammed, v1alpha1.ConditionReady} {
		p.Status.Conditions = append(p.Status.Conditions,
			metav1.Condition{Type: name, Status: metav1.ConditionTrue, ObservedGeneration: 2})
	}
	p.Status.Active = &v1alpha1.ActiveProfile{Revision: "5d9c7b6f84", Generation: 2}
	s := NewStatus([]v1alpha1.SchedulerProfile{p},
		[]v1alpha1.SchedulingPolicy{{ObjectMeta: metav1.ObjectMeta{Name: "own", Generation: 1}}})
	s.SetPods(map[string]*PodCounts{"gpu": {Active: 1, Unschedulable: 2}}, "")
	var out strings.Builder
	if err := s.Print(terminal.Plain(&out, 80), false); err != nil {
		t.Fatal(err)
	}
	want := `PROFILE   READY   REVISION     POLICY     PENDING   UNSCHEDULABLE
gpu       True    5d9c7b6f84   built-in   3         2

POLICY   READY     GENERATION   PROFILES
own      Unknown   1            -

schedulingpolicy/own: livesched has not processed it: is livesched running?
`
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
}

func TestThePrintedStatusOfShadows(t *testing.T) {
	shadow := func(name string, counts *v1alpha1.ShadowStatus) v1alpha1.SchedulerProfile {
		p := v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}}
		p.Spec.Mode = v1alpha1.ProfileShadow
		p.Spec.Shadow = &v1alpha1.ShadowSpec{ProfileRef: v1alpha1.ProfileReference{Name: "shop"}}
		p.Status.Shadow = counts
		for _, of := range []string{v1alpha1.ConditionAccepted, v1alpha1.ConditionProgrammed, v1alpha1.ConditionReady} {
			p.Status.Conditions = append(p.Status.Conditions,
				metav1.Condition{Type: of, Status: metav1.ConditionTrue, ObservedGeneration: 1})
		}
		return p
	}
	s := NewStatus([]v1alpha1.SchedulerProfile{
		shadow("new", nil),
		shadow("next", &v1alpha1.ShadowStatus{
			Since: metav1.NewTime(time.Now().Add(-3 * time.Hour)), Decisions: 12000, Agreed: 11988, NodeScoredLower: 8,
			NodeRefused: 2, ActiveOnlyFits: 1, ShadowOnlyFits: 1, Skipped: 1500,
			ScoreLoss: &v1alpha1.ShadowScoreLoss{Samples: 8, P50: 14, P99: 1100, Max: 1100},
			Causes: []v1alpha1.ShadowCause{{Plugin: "NodeResourcesFit", ExtensionPoint: "Score", Decisions: 8},
				{Plugin: "NodeAffinity", ExtensionPoint: "Filter", Decisions: 3}},
			FirstMismatch: `Pod "shop/a" fits node "n1"`,
		}),
	}, nil)
	var out strings.Builder
	if err := s.Print(terminal.Plain(&out, 120), false); err != nil {
		t.Fatal(err)
	}
	want := `PROFILE   READY   REVISION   POLICY    PENDING   UNSCHEDULABLE
new       True    -          default   -         -
next      True    -          default   -         -

schedulerprofile/new is a shadow of shop: no decisions yet

schedulerprofile/next is a shadow of shop: it agrees with 99.9 % of 12,000 decisions, in the last 3h
  8 where it scores another node higher than the chosen one (by 14 points in the median, 99 % by at most 1,100)
  2 where it refuses the chosen node, and finds another one
  1 where the pod fits a node with shop, and none with the shadow
  1 where the pod fits a node with the shadow, and none with shop
  1,500 were not compared
  causes, of a sample: NodeResourcesFit at Score (8), NodeAffinity at Filter (3)
  first: Pod "shop/a" fits node "n1"
`
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
}

func TestThePrintedRevisions(t *testing.T) {
	revisions := []Revision{{Number: 1, Revision: "b47874bsgc"},
		{Number: 2, Revision: "pdh8zspwhj", Active: true, By: "kubectl", ChangeCause: "more GPUs"}}
	var out strings.Builder
	if err := Revisions(terminal.Plain(&out, 80), revisions, true, false); err != nil {
		t.Fatal(err)
	}
	want := `NUMBER   REVISION     ACTIVE SINCE   BY        CHANGE-CAUSE
1        b47874bsgc   -              -         -
2 *      pdh8zspwhj   -              kubectl   more GPUs
`
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
}

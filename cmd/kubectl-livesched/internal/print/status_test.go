// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package print

import (
	"strings"
	"testing"

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

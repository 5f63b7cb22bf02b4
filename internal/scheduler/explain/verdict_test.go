// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"testing"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/api/v1alpha1"
)

// TestAPodThatIsRefusedEverywhereForNow has the refusal of an out-of-tree plugin, such as one for
// quotas, that other pods resolve by ending.
func TestAPodThatIsRefusedEverywhereForNow(t *testing.T) {
	e := newExplainer(nil, nil, &v1alpha1.PodExplanation{Nodes: 3, Pending: &v1alpha1.PendingExplanation{}})
	e.everywhere = []*fwk.Status{fwk.NewStatus(fwk.Unschedulable, "the quota of the team is used up").
		WithPlugin("Quota")}
	e.Pending.PodRefusals = e.podRefusals()
	r := e.Pending.PodRefusals[0]
	if r.Plugin != "Quota" || r.Reason != v1alpha1.ReasonRefused || !r.Resolvable {
		t.Errorf("got %+v", r)
	}
	want := "The pod cannot be scheduled on any node now: the quota of the team is used up. It would fit if other " +
		"pods ended."
	if got := e.messageOfFreed(); got != want {
		t.Errorf("got %q", got)
	}
}

func TestNoProfile(t *testing.T) {
	for _, tc := range []struct {
		name  string
		known []string
		want  string
	}{
		{"sprea", []string{"spread", "binpack"},
			`No SchedulerProfile has the scheduler name "sprea": did you mean spread?`},
		{"else", []string{"spread", "binpack"},
			`No SchedulerProfile has the scheduler name "else". Scheduler names of the profiles: spread and binpack.`},
		{"else", []string{"a1", "b2", "c3", "d4", "e5", "f6"}, `No SchedulerProfile has the scheduler name "else".`},
		{"else", nil, `No SchedulerProfile has the scheduler name "else".`},
	} {
		if got := noProfile(tc.name, tc.known); got != tc.want {
			t.Errorf("%s of %v: got %s", tc.name, tc.known, got)
		}
	}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package print

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
)

func neverFits() *v1alpha1.PodExplanation {
	taint := v1alpha1.Refusal{Plugin: "TaintToleration", Reason: v1alpha1.ReasonUntoleratedTaint,
		Detail: "taint nvidia.com/gpu=present:NoSchedule"}
	return &v1alpha1.PodExplanation{
		Verdict: v1alpha1.VerdictNeverFits, SchedulerName: "spread", Profile: "spread", Nodes: 119,
		Pending: &v1alpha1.PendingExplanation{
			Groups: []v1alpha1.NodeGroup{{Nodes: 3, Pools: []string{"gpu"}, Refusals: []v1alpha1.Refusal{taint}}},
			Suggestions: []v1alpha1.Suggestion{
				{Verified: true, Description: "Let the pod tolerate the taint nvidia.com/gpu=present:NoSchedule of 3 " +
					"nodes of the pool gpu."}},
		},
	}
}

func TestThePrintedSummary(t *testing.T) {
	web, bare := neverFits(), neverFits()
	bare.Pending.Suggestions = nil
	x := &Kinds{
		Explained: []*Kind{
			{Namespace: "ux", Name: "web-1", Owner: "deployment/web", Pods: 1900,
				Since: explained.Add(-12 * time.Minute), Explanation: web},
			{Namespace: "ux", Name: "one", Owner: "pod/one", Pods: 1, Since: explained.Add(-time.Minute),
				Explanation: bare},
		},
		Others: 5, Schedulers: []string{"default-scheduler"}, Left: 3, LeftKinds: 2,
	}
	var out strings.Builder
	if err := Summary(terminal.Plain(&out, 80), x, "in namespace ux", explained, false, false); err != nil {
		t.Fatal(err)
	}
	want := `1,901 pending pods in namespace ux, of 2 kinds; profile spread.
PODS    OF               SINCE   WHY
1,900   deployment/web   12m     no node fits (of 119): taint
                                 nvidia.com/gpu=present:NoSchedule. Would help:
                                 Let the pod tolerate the taint
                                 nvidia.com/gpu=present:NoSchedule of 3 nodes of
                                 the pool gpu.
1       pod/one          60s     no node fits (of 119): taint
                                 nvidia.com/gpu=present:NoSchedule
More of each: kubectl livesched explain deployment/web -n ux
5 pending pods of other schedulers: default-scheduler.
Not explained: 3 pending pods of 2 more kinds.
`
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
	bare.Profile = "other"
	out.Reset()
	if err := Summary(terminal.Plain(&out, 80), x, "in all namespaces", explained, true, false); err != nil ||
		!strings.Contains(out.String(), "PODS    NAMESPACE   OF               SINCE   PROFILE   WHY") {
		t.Error(err, out.String())
	}
}

func TestThePrintedGroup(t *testing.T) {
	explanation := &v1alpha1.PodExplanation{
		Verdict: v1alpha1.VerdictFitsWhenFreed, Message: "No room.",
		Pending: &v1alpha1.PendingExplanation{PodGroup: &v1alpha1.PodGroupFit{Name: "train", Needed: 64, Ready: 66,
			Fit: 12}},
	}
	x := &Kinds{Explained: []*Kind{{Name: "w0-0", Pods: 1, Explanation: explanation},
		{Name: "w1-0", Pods: 2, Explanation: explanation}}, Left: 7}
	var out strings.Builder
	if err := Group(terminal.Plain(&out, 100), "train", GroupPods{Total: 70, OnNodes: 3, Ended: 1, Pending: 66}, x,
		explained, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Pod group train has 70 pods: 3 on nodes, 66 pending, 1 ended.\n", "\nw1-0, and 1 pod like it:\n",
		"Pod group train: 64 pods must be placed together, and 12 fit now; 66 are ready.\n",
		"\nNot explained: 7 pods of other kinds.\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, &out)
		}
	}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
)

var explained = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func printed(t *testing.T, e *v1alpha1.PodExplanation) string {
	t.Helper()
	var out strings.Builder
	if err := printExplanation(testTerminal(&out), e, explained); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if len(strings.TrimRight(line, "\n")) > lineWidth {
			t.Errorf("longer than %d: %s", lineWidth, line)
		}
	}
	return out.String()
}

func expectPrinted(t *testing.T, e *v1alpha1.PodExplanation, lines ...string) {
	t.Helper()
	var got []string
	for line := range strings.Lines(printed(t, e)) {
		got = append(got, strings.TrimRight(line, " \n"))
	}
	if d := cmp.Diff(lines, got); d != "" {
		t.Error(d)
	}
}

func TestThePrintedExplanationOfAPendingPod(t *testing.T) {
	expectPrinted(t, &v1alpha1.PodExplanation{
		Verdict: v1alpha1.VerdictFitsWhenFreed, SchedulerName: "gpu", Profile: "gpu", Revision: "pdh8zspwhj", Nodes: 216,
		Pending: &v1alpha1.PendingExplanation{
			Reason: "Unschedulable", Since: metav1.NewTime(explained.Add(-14 * time.Minute)), Attempts: 6, Alike: 1312,
			NextTry: metav1.NewTime(explained.Add(4 * time.Minute)),
			Groups: []v1alpha1.NodeGroup{
				{Nodes: 1175, Pools: []string{"web"}, Refusals: []v1alpha1.Refusal{
					{Plugin: "TaintToleration", Reason: "UntoleratedTaint"},
					{Plugin: "NodeResourcesFit", Reason: "InsufficientResource", ShortBy: []v1alpha1.Shortage{
						{Resource: "cpu", Quantity: resource.MustParse("500m"), Nodes: 1000},
						{Resource: "nvidia.com/gpu", Quantity: resource.MustParse("1"), Nodes: 1},
					}},
				}},
				{Nodes: 41, Pools: []string{"a100"}, Refusals: []v1alpha1.Refusal{{Plugin: "Ours", Reason: "Refused", Messages: []string{"no license"}}}},
			},
			Suggestions: []v1alpha1.Suggestion{
				{Type: v1alpha1.SuggestionFree, Description: "free 1 GPU on one of 9 nodes, zone-a", Verified: true},
				{Type: v1alpha1.SuggestionAddNode, Description: "add a node like those of the pool a100"},
			},
			WaitsFor: []v1alpha1.EventAwaited{
				{Event: "Pod/Delete", Plugins: []string{"NodeResourcesFit"}}, {Event: "Node/Update", Plugins: []string{"TaintToleration"}},
				{Event: "Node/Add", Plugins: []string{"NodeResourcesFit"}},
			},
		},
	},
		"Pending 14m, Unschedulable, attempt 6; profile gpu@pdh8zspwhj; 1,312 pods alike",
		"Verdict: FitsWhenFreed",
		"NODES   POOL   PLUGIN             REASON                 SHORT BY",
		"1,175   web    TaintToleration    UntoleratedTaint       -",
		"               NodeResourcesFit   InsufficientResource   500m cpu on 1,000 nodes",
		"                                                         1 nvidia.com/gpu on 1 node",
		"41      a100   Ours               Refused                no license",
		"Would help (verified): free 1 GPU on one of 9 nodes, zone-a",
		"Might help: add a node like those of the pool a100",
		"Waits for: Pod/Delete, Node/Add (NodeResourcesFit); Node/Update (TaintToleration)",
		"Next try: in 4m at the latest",
	)
}

func TestThePrintedExplanationOfAPodWithoutAProfile(t *testing.T) {
	expectPrinted(t, &v1alpha1.PodExplanation{
		Verdict: v1alpha1.VerdictNoProfile, SchedulerName: "typo", Message: `No SchedulerProfile has the scheduler name "typo".`,
		Pending: &v1alpha1.PendingExplanation{Since: metav1.NewTime(explained.Add(-time.Minute)), Gates: []string{"example.com/a", "example.com/b"}},
	},
		"Pending 60s; scheduler name typo",
		`Verdict: NoProfile. No SchedulerProfile has the scheduler name "typo".`,
		"Scheduling gates: example.com/a, example.com/b",
	)
}

func TestThePrintedExplanationOfABoundPod(t *testing.T) {
	expectPrinted(t, &v1alpha1.PodExplanation{
		Verdict: v1alpha1.VerdictBound, SchedulerName: "spread", Profile: "spread", Revision: "b47874bsgc", Feasible: 4812,
		Bound: &v1alpha1.BoundExplanation{Node: "n17", Basis: v1alpha1.BasisRecomputed, Changes: 1412, Tied: 36, Top: []v1alpha1.NodeScore{
			{Node: "n17", Total: 1450, Scores: map[string]int64{"PodTopologySpread": 1000, "TaintToleration": 300, "NodeResourcesFit": 62, "NodeResourcesBalancedAllocation": 88}},
			{Total: 1361, Scores: map[string]int64{"PodTopologySpread": 900, "TaintToleration": 300, "NodeResourcesFit": 71, "NodeResourcesBalancedAllocation": 90}},
		}},
	},
		"n17 by spread@b47874bsgc; 4,812 fit, 36 tied; basis Recomputed, 1,412 changes since",
		"NODE   TOTAL   Spread   Fit   Balanced",
		"n17    1450    1000     62    88",
		"-      1361    900      71    90",
		"Equal on these nodes: Taint 300",
	)
}

func TestAnExplanationIsAtMostAHundredColumnsWide(t *testing.T) {
	scores := func(by int64) map[string]int64 {
		all := map[string]int64{}
		for i := range 9 {
			all[fmt.Sprint("AnOutOfTreePlugin", i)] = int64(i) * by
		}
		return all
	}
	bound := printed(t, &v1alpha1.PodExplanation{Profile: "mine", Bound: &v1alpha1.BoundExplanation{Node: "n", Top: []v1alpha1.NodeScore{
		{Node: "n", Total: 36, Scores: scores(1)}, {Node: "m", Total: 0, Scores: scores(0)},
	}}})
	if !strings.Contains(bound, "AnOutOfTreePlugin8") || !strings.Contains(bound, "4 plugins more: -o yaml") {
		t.Error(bound)
	}
	printed(t, &v1alpha1.PodExplanation{Message: strings.Repeat("a long sentence ", 20), Pending: &v1alpha1.PendingExplanation{}})
}

func TestTheNameOfWhatIsExplained(t *testing.T) {
	for _, test := range []struct {
		args       []string
		kind, name string
	}{
		{[]string{"pod", "a"}, "pod", "a"}, {[]string{"pod/a"}, "pod", "a"}, {[]string{"pods/a"}, "pod", "a"}, {[]string{"po", "a"}, "pod", "a"},
		{[]string{"podgroup/a"}, "podgroup", "a"}, {[]string{"pg", "a"}, "podgroup", "a"},
	} {
		if kind, name, err := explainedName(test.args); kind != test.kind || name != test.name || err != nil {
			t.Errorf("%v: got %q, %q, %v", test.args, kind, name, err)
		}
	}
	for _, args := range [][]string{{"a"}, {"pod"}, {"node/a"}, {"pod/"}, {"pod/a", "b"}, {"pod/a/b"}, {"podgroup/"}} {
		if _, _, err := explainedName(args); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}

func TestThePrintedPodGroup(t *testing.T) {
	for want, g := range map[string]v1alpha1.PodGroupFit{
		"Pod group train: 64 pods must be placed together, and 12 fit now; 70 are ready.": {
			Name: "train", Needed: 64, Ready: 70, Fit: 12, Tried: []v1alpha1.DomainFit{{Fit: 12}},
		},
		"Pod group train: 1 pod must be placed together, and 0 fit now; 1 are ready.": {Name: "train", Needed: 1, Ready: 1},
		"Pod group train: 64 pods must be placed together, and 12 fit now in rack=a; 1,000 are ready. Tried: 12 in rack=a, 8 in rack=b, " +
			"2 in the cluster. The time was up: more may fit.": {
			Name: "train", Needed: 64, Ready: 1000, Fit: 12, Domain: "rack=a", Incomplete: true,
			Tried: []v1alpha1.DomainFit{{Domain: "rack=a", Fit: 12}, {Domain: "rack=b", Fit: 8}, {Fit: 2}},
		},
	} {
		if got := podGroupLine(&g); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	text := printed(t, &v1alpha1.PodExplanation{Pending: &v1alpha1.PendingExplanation{PodGroup: &v1alpha1.PodGroupFit{Name: "train", Needed: 2}}})
	if !strings.Contains(text, "Pod group train: 2 pods must be placed together, and 0 fit now; 0 are ready.\n") {
		t.Errorf("got %s", text)
	}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
)

var decidedAt = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// someDecisions are of all kinds.
func someDecisions() []v1alpha1.Decision {
	ago := func(d time.Duration) metav1.MicroTime { return metav1.NewMicroTime(decidedAt.Add(-d)) }
	return []v1alpha1.Decision{
		{
			Time: ago(4 * time.Second), Namespace: "ml", Pod: "train-7", PodUID: "1", Attempt: 3, Profile: "gpu", Revision: "5d9c7b6f84",
			Result: v1alpha1.DecisionBound, Node: "node-3", Nodes: 912, Feasible: 12, Total: 211, Tied: 2, Repeated: 1,
		},
		{
			Time: ago(10 * time.Second), Namespace: "ml", Pod: "greedy", PodUID: "2", Attempt: 87, Profile: "gpu", Revision: "5d9c7b6f84",
			Result: v1alpha1.DecisionUnschedulable, Nodes: 912, Repeated: 86,
			Message: "0/912 nodes are available: 3 node(s) had untolerated taint(s), 909 Insufficient nvidia.com/gpu. " +
				"no new claims to deallocate, preemption: 0/912 nodes are available: 912 Preemption is not helpful for scheduling.",
		},
		{
			Time: ago(11 * time.Second), Namespace: "ml", PodGroup: "train", Attempt: 2, Profile: "gpu", Revision: "5d9c7b6f84",
			Result: v1alpha1.DecisionUnschedulable, Nodes: 912, Repeated: 1,
			Message: "pod group ml/train: 64 pods must be placed together, but there are resources for 60 of them at most; preemption: evicting 3 pods",
		},
		{
			Time: ago(12 * time.Second), Namespace: "ml", Pod: "train-6", PodUID: "3", Attempt: 1, Profile: "gpu", Revision: "5d9c7b6f84",
			Result: v1alpha1.DecisionBindFailed, Node: "node-4", Nodes: 912, Feasible: 1, Repeated: 1, Message: "the node is gone",
		},
	}
}

func TestDecisionsArePrinted(t *testing.T) {
	for name, test := range map[string]struct {
		width int
		table decisionTable
		want  string
	}{
		"without a terminal": {0, decisionTable{}, `
AGE   POD              RESULT              FITS     NODE OR REASON
4s    train-7          Bound               12/912   node-3
10s   greedy           Unschedulable x86   0/912    3 node(s) had untolerated taint(s), 909 Insufficient nvidia.com/gpu
11s   podgroup/train   Unschedulable       -        64 pods must be placed together, but there are resources for 60 of them at most; preemption: evicting 3 pods
12s   train-6          BindFailed          1/912    node-4: the node is gone
`},
		"80 columns": {80, decisionTable{}, `
AGE   POD              RESULT              NODE OR REASON
4s    train-7          Bound               node-3
10s   greedy           Unschedulable x86   3 node(s) had untolerated taint(s),
                                           909 Insufficient nvidia.com/gpu
11s   podgroup/train   Unschedulable       64 pods must be placed together, but
                                           there are resources for 60 of them at
                                           most; preemption: evicting 3 pods
12s   train-6          BindFailed          node-4: the node is gone
`},
		"of all namespaces, without nodes": {120, decisionTable{namespaces: true, hidden: true}, `
AGE   NAMESPACE   POD              RESULT              FITS     NODE OR REASON
4s    ml          train-7          Bound               12/912   (hidden)
10s   ml          greedy           Unschedulable x86   0/912    3 node(s) had untolerated taint(s), 909 Insufficient
                                                                nvidia.com/gpu
11s   ml          podgroup/train   Unschedulable       -        64 pods must be placed together, but there are resources
                                                                for 60 of them at most; preemption: evicting 3 pods
12s   ml          train-6          BindFailed          1/912    (hidden): the node is gone
Node names are hidden: you may not list nodes.
`},
		"wide": {0, decisionTable{wide: true}, `
AGE   POD              RESULT              NODE     FITS     SCORE   TIED   TRY   PROFILE          REASON
4s    train-7          Bound               node-3   12/912   211     2      3     gpu@5d9c7b6f84   -
10s   greedy           Unschedulable x86   -        0/912    -       -      87    gpu@5d9c7b6f84   ` + someDecisions()[1].Message + `
11s   podgroup/train   Unschedulable       -        -        -       -      2     gpu@5d9c7b6f84   ` + someDecisions()[2].Message + `
12s   train-6          BindFailed          node-4   1/912    -       -      1     gpu@5d9c7b6f84   the node is gone
`},
	} {
		t.Run(name, func(t *testing.T) {
			decisions := someDecisions()
			if test.table.hidden {
				for i := range decisions {
					decisions[i].Node = ""
				}
			}
			var out bytes.Buffer
			if err := test.table.print(terminal.Plain(&out, test.width), decisions, decidedAt); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, "\n"+out.String()); diff != "" {
				t.Error(diff)
			}
			for line := range strings.Lines(out.String()) {
				if test.width > 0 && len(line) > test.width+1 {
					t.Errorf("%d columns: %s", len(line)-1, line)
				}
			}
		})
	}
}

func TestReasonsAreCutBetweenWords(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", ""},
		{"one two", "one two"},
		{"one two three four", "one two three four"},
		{"one two three four five", "one two three ..."},
		{"supercalifragilistic", "supercalifragilistic"},
		{"one supercalifragilistic two", "one supercalifragilistic ..."},
	} {
		if got := cutAfter(test.text, 2, 10); got != test.want {
			t.Errorf("%q: %q, want %q", test.text, got, test.want)
		}
	}
}

func TestDecisionsOfAnOlderLivesched(t *testing.T) {
	var out bytes.Buffer
	decisions := []v1alpha1.Decision{{Time: metav1.NewMicroTime(decidedAt), PodUID: "a-uid", Result: v1alpha1.DecisionUnschedulable, Nodes: 3}}
	if err := (&decisionTable{}).print(&out, decisions, decidedAt); err != nil || !strings.HasSuffix(out.String(), "\n0s    a-uid   Unschedulable   0/3    -\n") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestParametersOfDecisions(t *testing.T) {
	for name, test := range map[string]struct {
		args    []string
		options decisionsOptions
		want    map[string]string
		err     string
	}{
		"nothing":             {nil, decisionsOptions{limit: 20}, map[string]string{"limit": "20"}, ""},
		"a pod":               {[]string{"pod/a"}, decisionsOptions{limit: 1}, map[string]string{"limit": "1", "pod": "a"}, ""},
		"a pod, in two words": {[]string{"Pods", "a"}, decisionsOptions{limit: 1}, map[string]string{"limit": "1", "pod": "a"}, ""},
		"a group": {[]string{"podgroups.scheduling.x-k8s.io/g"}, decisionsOptions{limit: 1, result: "bindfailed", profile: "p", node: "n"},
			map[string]string{"limit": "1", "podGroup": "g", "result": "BindFailed", "profile": "p", "node": "n"}, ""},
		"a name without a type": {[]string{"greedy"}, decisionsOptions{limit: 1}, nil, `"greedy" has no type: use pod/greedy or podgroup/greedy`},
		"another type":          {[]string{"deployment/web"}, decisionsOptions{limit: 1}, nil, `"deployment/web": must be pod/NAME or podgroup/NAME`},
		"a mistyped type":       {[]string{"podgruop/g"}, decisionsOptions{limit: 1}, nil, `"podgruop/g": must be pod/NAME or podgroup/NAME: did you mean podgroup?`},
		"several":               {[]string{"pod/a", "pod/b"}, decisionsOptions{limit: 1}, nil, `"pod/a pod/b": must be pod/NAME or podgroup/NAME, with one name`},
		"no name":               {[]string{"pod"}, decisionsOptions{limit: 1}, nil, `"pod": must be pod/NAME or podgroup/NAME, with one name`},
		"a limit of 0":          {nil, decisionsOptions{}, nil, "--limit: must be from 1 to 10000, not 0"},
		"a limit that is too high": {nil, decisionsOptions{limit: 10001}, nil,
			"--limit: must be from 1 to 10000, not 10001"},
		"a mistyped result": {nil, decisionsOptions{limit: 1, result: "unschedulabel"}, nil,
			`--result: must be Binding, Bound, BindFailed, Unschedulable or Failed, not "unschedulabel": did you mean Unschedulable?`},
	} {
		got, err := test.options.parameters(test.args)
		if test.err != "" {
			if err == nil || err.Error() != test.err {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || !maps.Equal(got, test.want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestNoDecisions(t *testing.T) {
	o := decisionsOptions{namespace: "ml", result: "Failed", node: "n1"}
	if got, want := o.noDecisions([]string{"pod", "a"}), "There are no decisions about pod/a in namespace ml with --result Failed and --node n1 since the leader began."; got != want {
		t.Errorf("%s", got)
	}
	o = decisionsOptions{allNamespaces: true}
	if got, want := o.noDecisions(nil), "There are no decisions since the leader began."; got != want {
		t.Errorf("%s", got)
	}
}

// TestDecisionsAreFollowed reads one list after the other, a second apart.
func TestDecisionsAreFollowed(t *testing.T) {
	d := func(number int64, result v1alpha1.DecisionResult, message string) v1alpha1.Decision {
		return v1alpha1.Decision{Number: number, Result: result, Message: message}
	}
	const bound, binding, unschedulable = v1alpha1.DecisionBound, v1alpha1.DecisionBinding, v1alpha1.DecisionUnschedulable
	f := &follower{}
	for i, step := range []struct {
		latest int64
		items  []v1alpha1.Decision // the latest first
		want   string
		after  int64 // of the next list
	}{
		{3, []v1alpha1.Decision{d(3, binding, ""), d(2, unschedulable, "no room"), d(1, bound, "")}, "1 Bound, 2 Unschedulable, 3 Binding", 2},
		{5, []v1alpha1.Decision{d(5, binding, ""), d(4, bound, ""), d(3, binding, "")}, "4 Bound", 2},
		{6, []v1alpha1.Decision{d(6, unschedulable, ""), d(5, bound, ""), d(4, bound, ""), d(3, bound, "")}, "3 Bound, 5 Bound", 5},
		{6, []v1alpha1.Decision{d(6, unschedulable, "no room")}, "6 Unschedulable", 6},
		{7, []v1alpha1.Decision{d(7, binding, "")}, "", 6},
		{7, []v1alpha1.Decision{d(7, binding, "")}, "", 6},
		{7, []v1alpha1.Decision{d(7, binding, "")}, "", 6},
		{7, []v1alpha1.Decision{d(7, binding, "")}, "7 Binding", 6},
		{2000, []v1alpha1.Decision{d(7, binding, "")}, "", 2000},
		{2, nil, "Another replica leads now, or the leader has restarted: these are its decisions.", 0},
		{2, []v1alpha1.Decision{d(2, bound, ""), d(1, bound, "")}, "1 Bound, 2 Bound", 2},
	} {
		var decisions []v1alpha1.Decision
		var got []string
		list := &v1alpha1.DecisionList{Items: step.items, Latest: step.latest}
		if i == 0 {
			decisions = f.begin(list)
		} else {
			var note string
			if decisions, note = f.next(list, decidedAt.Add(time.Duration(i)*time.Second)); note != "" {
				got = append(got, note)
			}
		}
		for _, d := range decisions {
			got = append(got, fmt.Sprintf("%d %s", d.Number, d.Result))
		}
		if text := strings.Join(got, ", "); text != step.want || f.after != step.after {
			t.Fatalf("list %d: %q, then after %d; want %q and %d", i, text, f.after, step.want, step.after)
		}
	}
}

func TestFollowedDecisionsAreSelected(t *testing.T) {
	f := &follower{result: v1alpha1.DecisionBound}
	first := &v1alpha1.DecisionList{Latest: 2, Items: []v1alpha1.Decision{{Number: 2, Result: v1alpha1.DecisionBinding}, {Number: 1, Result: v1alpha1.DecisionBound}}}
	if got := f.begin(first); len(got) != 1 || got[0].Number != 1 {
		t.Errorf("%+v", got)
	}
	next := &v1alpha1.DecisionList{Latest: 3, Items: []v1alpha1.Decision{{Number: 3, Result: v1alpha1.DecisionUnschedulable, Message: "no"}, {Number: 2, Result: v1alpha1.DecisionBound}}}
	if got, _ := f.next(next, decidedAt); len(got) != 1 || got[0].Number != 2 {
		t.Errorf("%+v", got)
	}
	if p := f.parameters(7); p["after"] != "3" || p["limit"] != "7" || p["result"] != "" {
		t.Error(p)
	}
}

func TestPartsOfATableAreAligned(t *testing.T) {
	var out bytes.Buffer
	shared := &options{IOStreams: genericiooptions.IOStreams{Out: terminal.Plain(&out, 80)}}
	p := &followPrinter{options: &decisionsOptions{options: shared}, table: &decisionTable{times: true}}
	for _, part := range [][]v1alpha1.Decision{someDecisions()[1:2], someDecisions()[:1], nil, someDecisions()[2:]} {
		for i := range part {
			part[i].Repeated = 0
			part[i].Time = metav1.NewMicroTime(decidedAt.Local())
		}
		if err := p.print(part); err != nil {
			t.Fatal(err)
		}
	}
	at := decidedAt.Local().Format(time.TimeOnly)
	want := strings.ReplaceAll(`TIME       POD      RESULT          NODE OR REASON
AT   greedy   Unschedulable   3 node(s) had untolerated taint(s), 909
                                    Insufficient nvidia.com/gpu
AT   train-7   Bound           node-3
AT   podgroup/train   Unschedulable   64 pods must be placed together, but
                                            there are resources for 60 of them
                                            at most; preemption: evicting 3 pods
AT   train-6          BindFailed      node-4: the node is gone
`, "AT", at)
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

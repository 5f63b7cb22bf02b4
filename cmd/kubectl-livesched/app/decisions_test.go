// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/livesched/livesched/api/v1alpha1"
)

var decidedAt = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func TestParametersOfDecisions(t *testing.T) {
	for name, test := range map[string]struct {
		args    []string
		options decisionsOptions
		want    map[string]string
		err     string
	}{
		"nothing": {nil, decisionsOptions{limit: 20}, map[string]string{"limit": "20"}, ""},
		"a pod": {[]string{"pod/a"}, decisionsOptions{limit: 1},
			map[string]string{"limit": "1", "pod": "a"}, ""},
		"a pod, in two words": {[]string{"Pods", "a"}, decisionsOptions{limit: 1},
			map[string]string{"limit": "1", "pod": "a"}, ""},
		"a group": {[]string{"podgroups.scheduling.x-k8s.io/g"},
			decisionsOptions{limit: 1, result: "bindfailed", profile: "p", node: "n"},
			map[string]string{"limit": "1", "podGroup": "g", "result": "BindFailed", "profile": "p", "node": "n"}, ""},
		"a name without a type": {[]string{"greedy"}, decisionsOptions{limit: 1}, nil,
			`"greedy" has no type: use pod/greedy or podgroup/greedy`},
		"another type": {[]string{"deployment/web"}, decisionsOptions{limit: 1}, nil,
			`"deployment/web": must be pod/NAME or podgroup/NAME`},
		"a mistyped type": {[]string{"podgruop/g"}, decisionsOptions{limit: 1}, nil,
			`"podgruop/g": must be pod/NAME or podgroup/NAME: did you mean podgroup?`},
		"several": {[]string{"pod/a", "pod/b"}, decisionsOptions{limit: 1}, nil,
			`"pod/a pod/b": must be pod/NAME or podgroup/NAME, with one name`},
		"no name": {[]string{"pod"}, decisionsOptions{limit: 1}, nil,
			`"pod": must be pod/NAME or podgroup/NAME, with one name`},
		"a limit of 0": {nil, decisionsOptions{}, nil, "--limit: must be from 1 to 10000, not 0"},
		"a limit that is too high": {nil, decisionsOptions{limit: 10001}, nil,
			"--limit: must be from 1 to 10000, not 10001"},
		"a mistyped result": {nil, decisionsOptions{limit: 1, result: "unschedulabel"}, nil,
			`--result: must be Binding, Bound, BindFailed, Unschedulable or Failed, not "unschedulabel": did you ` +
				`mean Unschedulable?`},
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
	if got, want := o.noDecisions([]string{"pod", "a"}), "There are no decisions about pod/a in namespace ml with "+
		"--result Failed and --node n1 since the leader began."; got != want {
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
	const bound, binding, unschedulable = v1alpha1.DecisionBound, v1alpha1.DecisionBinding,
		v1alpha1.DecisionUnschedulable
	f := &follower{}
	for i, step := range []struct {
		latest int64
		items  []v1alpha1.Decision // the latest first
		want   string
		after  int64 // of the next list
	}{
		{3, []v1alpha1.Decision{d(3, binding, ""), d(2, unschedulable, "no room"), d(1, bound, "")},
			"1 Bound, 2 Unschedulable, 3 Binding", 2},
		{5, []v1alpha1.Decision{d(5, binding, ""), d(4, bound, ""), d(3, binding, "")}, "4 Bound", 2},
		{6, []v1alpha1.Decision{d(6, unschedulable, ""), d(5, bound, ""), d(4, bound, ""), d(3, bound, "")},
			"3 Bound, 5 Bound", 5},
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
	first := &v1alpha1.DecisionList{Latest: 2,
		Items: []v1alpha1.Decision{{Number: 2, Result: v1alpha1.DecisionBinding},
			{Number: 1, Result: v1alpha1.DecisionBound}}}
	if got := f.begin(first); len(got) != 1 || got[0].Number != 1 {
		t.Errorf("%+v", got)
	}
	next := &v1alpha1.DecisionList{Latest: 3,
		Items: []v1alpha1.Decision{{Number: 3, Result: v1alpha1.DecisionUnschedulable, Message: "no"},
			{Number: 2, Result: v1alpha1.DecisionBound}}}
	if got, _ := f.next(next, decidedAt); len(got) != 1 || got[0].Number != 2 {
		t.Errorf("%+v", got)
	}
	if p := f.parameters(7); p["after"] != "3" || p["limit"] != "7" || p["result"] != "" {
		t.Error(p)
	}
}

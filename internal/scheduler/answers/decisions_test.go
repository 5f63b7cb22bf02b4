// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/livesched/livesched/internal/apiserving"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
)

func TestLatestDecisions(t *testing.T) {
	log := decisionlog.New(100)
	answers := &Answers{Log: log}
	start := time.Unix(1_700_000_000, 0)
	for _, d := range []struct {
		pod, group, node, message string
		result                    decisionlog.Result
	}{
		{"a", "", "", "0/2 nodes are available: 2 Insufficient cpu.", decisionlog.Unschedulable},
		{"b", "", "n1", "", decisionlog.Bound},
		{"a", "", "", "0/3 nodes are available: 3 Insufficient cpu.", decisionlog.Unschedulable},
		{"", "g", "", "pod group ns/g: 3 pods", decisionlog.Unschedulable},
		{"a", "", "", "0/3 nodes are available: 3 node(s) had taints.", decisionlog.Unschedulable},
		{"", "g", "", "pod group ns/g: 4 pods", decisionlog.Unschedulable},
		{"a", "", "", "0/3 nodes are available: 3 node(s) had taints.", decisionlog.Unschedulable},
		{"a", "", "n1", "", decisionlog.Bound},
	} {
		n := log.Append(&decisionlog.Decision{
			Pod: types.UID(d.pod), Namespace: "ns", Name: d.pod, Group: d.group, Node: d.node, Result: d.result,
			Time: start.Add(time.Duration(log.Newest()) * time.Second),
		})
		log.Explain(n, d.message)
	}
	for name, test := range map[string]struct {
		query apiserving.DecisionQuery
		want  []string
	}{
		"all": {apiserving.DecisionQuery{Limit: 100}, []string{
			"8 ns/a Bound n1", "7 ns/a Unschedulable 0/3 nodes are available: 3 node(s) had taints.",
			"6 ns/ Unschedulable pod group ns/g: 4 pods",
			"5 ns/a Unschedulable 0/3 nodes are available: 3 node(s) had taints.",
			"4 ns/ Unschedulable pod group ns/g: 3 pods",
			"3 ns/a Unschedulable 0/3 nodes are available: 3 Insufficient cpu.", "2 ns/b Bound n1",
			"1 ns/a Unschedulable 0/2 nodes are available: 2 Insufficient cpu.",
		}},
		"the last ones": {apiserving.DecisionQuery{Limit: 1}, []string{"8 ns/a Bound n1"}},
		"collapsed": {apiserving.DecisionQuery{Limit: 100, Collapse: true}, []string{
			"8 ns/a Bound n1 x1 from 7s",
			"7 ns/a Unschedulable 0/3 nodes are available: 3 node(s) had taints. x2 from 4s",
			"6 ns/ Unschedulable pod group ns/g: 4 pods x2 from 3s",
			"3 ns/a Unschedulable 0/3 nodes are available: 3 Insufficient cpu. x2 from 0s",
			"2 ns/b Bound n1 x1 from 1s",
		}},
		"collapsed, as long as there is room": {apiserving.DecisionQuery{Limit: 2, Collapse: true}, []string{
			"8 ns/a Bound n1 x1 from 7s",
			"7 ns/a Unschedulable 0/3 nodes are available: 3 node(s) had taints. x1 from 6s",
		}},
		"selected": {apiserving.DecisionQuery{Limit: 100, Collapse: true, PodGroup: "g"}, []string{
			"6 ns/ Unschedulable pod group ns/g: 4 pods x2 from 3s",
		}},
		"none": {apiserving.DecisionQuery{Limit: 100, Namespace: "other"}, nil},
	} {
		decisions, latest, err := answers.Decisions(t.Context(), &test.query)
		if err != nil || latest != 8 || decisions == nil {
			t.Fatalf("%s: %v, the latest is %d", name, err, latest)
		}
		var got []string
		for _, d := range decisions {
			line := fmt.Sprintf("%d %s/%s %s %s", d.Number, d.Namespace, d.Pod, d.Result, d.Node+d.Message)
			if d.Since != nil {
				line += fmt.Sprintf(" x%d from %v", d.Repeated, d.Since.Sub(start))
			}
			got = append(got, line)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

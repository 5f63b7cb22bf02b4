// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/livesched/livesched/api/v1alpha1"
)

func simulatedStatus() *v1alpha1.SimulationStatus {
	cpu := func(mean, stddev int32) []v1alpha1.ResourceUtilization {
		return []v1alpha1.ResourceUtilization{{Resource: "cpu", MeanPermille: mean, StddevPermille: stddev}}
	}
	return &v1alpha1.SimulationStatus{
		Pods: 2000, Actual: v1alpha1.SimulationOutcome{NodesUsed: 900, Utilization: cpu(419, 88)},
		Current: v1alpha1.SimulationOutcome{NodesUsed: 909, Moved: 1204, Utilization: cpu(420, 90)},
		New: &v1alpha1.SimulationOutcome{Unplaced: 3, NodesUsed: 640, ZoneSkewMax: 14, Moved: 1377, Preemptions: 1,
			Victims: 2, Utilization: cpu(421, 314)},
	}
}

func TestConditions(t *testing.T) {
	s := simulatedStatus()
	for text, want := range map[string]bool{
		"unplaced>0": true, "unplaced > 3": false, "unplaced>=3": true, "nodesUsed<current": true,
		"nodesUsed>current": false, "moved!=1377": false,
		"cpu.stddev>31.3": true, "cpu.mean<=42": false, "zoneSkewMax=14": true, "zoneSkewMax==14": true,
		"preemptions>0": true, "victims>2": false, "victims>current": true,
	} {
		conditions, err := parseConditions([]string{text})
		if err != nil {
			t.Error(err)
			continue
		}
		if _, holds := conditions[0].holds(s); holds != want {
			t.Errorf("%s: %t", text, holds)
		}
	}
	for _, text := range []string{"", "unplaced", "unplaced>", "nobody>1", "unplaced>x", ">1", "cpu>1", "cpu.men>1",
		"Unplaced>0", "moved>1>2"} {
		if _, err := parseConditions([]string{text}); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestAMistypedConditionIsAnError(t *testing.T) {
	for text, want := range map[string]string{
		"unplace>0": `--fail-on: unknown metric "unplace": did you mean unplaced? The metrics are moved, ` +
			`nodesUsed, preemptions, `,
		"cpu.men>1": `--fail-on: unknown metric "cpu.men": did you mean cpu.mean?`,
		"xyz>1":     `--fail-on: unknown metric "xyz". The metrics are `,
		"cpus.mean>1": `--fail-on "cpus.mean>1": unknown resource "cpus": did you mean cpu? The resources of the ` +
			`nodes are cpu, nvidia.com/gpu`,
		"gpu.stddev>1": `--fail-on "gpu.stddev>1": unknown resource "gpu": did you mean nvidia.com/gpu or cpu? The ` +
			`resources of the nodes are cpu, nvidia.com/gpu`,
		"disk.mean<50": `--fail-on "disk.mean<50": unknown resource "disk". The resources of the nodes are cpu, ` +
			`nvidia.com/gpu`,
	} {
		s := simulatedStatus()
		// whose nodes are removed
		s.Actual.Utilization = append(s.Actual.Utilization, v1alpha1.ResourceUtilization{Resource: "nvidia.com/gpu"})
		conditions, err := parseConditions([]string{"nvidia.com/gpu.mean>50", text})
		if err == nil {
			err = (&simulateOptions{options: &options{}}).fail(conditions, s)
		}
		if err == nil || errors.Is(err, errFound) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

func TestConditionsAboutNoPods(t *testing.T) {
	conditions, err := parseConditions([]string{"unplaced>0"})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		o     simulateOptions
		wrong bool
	}{
		{simulateOptions{pods: "all", namespace: "nons"}, true},
		{simulateOptions{pods: "last=10", selector: "app=nobody"}, true},
		{simulateOptions{pods: "pending", namespace: "ml"}, false}, {simulateOptions{pods: "all"}, false},
	} {
		if err := test.o.fail(conditions, &v1alpha1.SimulationStatus{}); (err != nil) != test.wrong ||
			errors.Is(err, errFound) {
			t.Errorf("%+v: got %v", test.o, err)
		}
	}
}

func TestFlagsOfSimulations(t *testing.T) {
	n := nodeChanges{add: []string{"a100=4"}, remove: []string{"n1", "pool=old", "zone=a"}}
	got, err := n.parse()
	want := v1alpha1.NodeChanges{Add: []v1alpha1.NodeAddition{{Like: "a100", Count: 4}}, Remove: []string{"n1"},
		RemoveSelector: "pool=old,zone=a"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if _, err := (&nodeChanges{remove: []string{"a=b=c"}}).parse(); err == nil ||
		!strings.HasPrefix(err.Error(), "--remove-nodes: ") {
		t.Errorf("--remove-nodes a=b=c: got %v", err)
	}
	for _, text := range []string{"a100", "a100=", "=1", "a100=0", "a100=x", "a100=5001"} {
		if _, err := (&nodeChanges{add: []string{text}}).parse(); err == nil {
			t.Errorf("--add-nodes %q is accepted", text)
		}
	}
	for text, want := range map[string]v1alpha1.PodSelection{
		"last=20": {Type: v1alpha1.PodsLast, Limit: 20}, "all": {Type: v1alpha1.PodsAll, Limit: 5000},
		"pending": {Type: v1alpha1.PodsPending, Limit: 5000},
	} {
		if got, err := parseSelection(text); err != nil || !cmp.Equal(got, want) {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "last", "last=0", "last=5001", "first=1", "all=1"} {
		if _, err := parseSelection(text); err == nil {
			t.Errorf("--pods %q is accepted", text)
		}
	}
}

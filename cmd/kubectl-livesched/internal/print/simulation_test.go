// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package print

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
)

func outcomeOf(unplaced, used, mean, stddev, skew, moved int32) v1alpha1.SimulationOutcome {
	return v1alpha1.SimulationOutcome{
		Unplaced: unplaced, NodesUsed: used, ZoneSkewMax: skew, Moved: moved,
		Utilization: []v1alpha1.ResourceUtilization{{Resource: "cpu", MeanPermille: mean, StddevPermille: stddev}},
	}
}

func simulated() *v1alpha1.Simulation {
	next := outcomeOf(3, 640, 421, 314, 14, 1377)
	next.MovedByOwner = []v1alpha1.OwnerPods{
		{Kind: "Deployment", Namespace: "default", Name: "batch", Pods: 1310}, {Kind: "Pod", Namespace: "ml", Pods: 60},
		{Kind: "StatefulSet", Namespace: "db", Name: "pg", Pods: 6},
		{Kind: "Job", Namespace: "db", Name: "backup", Pods: 1},
	}
	next.Preemptions, next.Victims, next.PreemptionsLimited = 1, 2, true
	next.VictimPods = []v1alpha1.VictimPod{
		{Namespace: "default", Name: "batch-4", Node: "node-7", PreemptorNamespace: "ml", PreemptorName: "train-6"},
	}
	next.UnplacedPods = []v1alpha1.UnplacedPod{
		{Namespace: "ml", Name: "train-7", Message: "0/912 nodes are available: 912 Insufficient cpu."}}
	return &v1alpha1.Simulation{Status: v1alpha1.SimulationStatus{
		Pods: 2000, Matching: 5312, Nodes: 912, Actual: outcomeOf(0, 912, 420, 91, 1, 0),
		Current: outcomeOf(0, 909, 420, 90, 1, 1204), New: &next,
		Profiles: []v1alpha1.SimulatedProfile{{SchedulerName: "mine", Pods: 2000, Current: "a", New: "b",
			ExtendersNotCalled: true}},
	}}
}

func TestPrintSimulation(t *testing.T) {
	var out bytes.Buffer
	if err := Simulation(terminal.Plain(&out, 100), simulated(), false); err != nil {
		t.Fatal(err)
	}
	want := `Pods decided again: 2,000 of 5,312, on 912 nodes.
                ACTUAL   CURRENT SPEC   NEW SPEC
unplaced        0        0              3
nodes used      912      909            640
cpu mean        42.0%    42.0%          42.1%
cpu stddev      9.1%     9.0%           31.4%
zone skew max   1        1              14
preemptions     -        0              1
victims         -        0              2
moved           -        1,204          1,377
Moved: 1,377 (default/batch 1,310, pods without a controller in ml 60, db/pg 6 and 1 pod of others:
  -o wide).
Victim: default/batch-4 on node-7, preempted by ml/train-6.
... and 1 more victim
There are more preemptions: livesched stopped looking for them, because it takes too long.
Unplaced: ml/train-7: 0/912 nodes are available: 912 Insufficient cpu.
... and 2 more unplaced pods
The extenders of mine are not called.
`
	if diff := cmp.Diff(want, out.String()[:min(len(want), out.Len())]); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), SimulationLimits) {
		t.Errorf("the limits are missing: %s", &out)
	}
}

func TestPrintLongLists(t *testing.T) {
	s := simulated()
	last := s.Status.New
	last.Unplaced, last.Victims, last.MovedByOwner = 19, 5, last.MovedByOwner[:2]
	last.UnplacedPods, last.VictimPods = nil, nil
	for range 10 {
		last.UnplacedPods = append(last.UnplacedPods, v1alpha1.UnplacedPod{Namespace: "ml", Name: "p"})
	}
	for range 5 {
		last.VictimPods = append(last.VictimPods, v1alpha1.VictimPod{Namespace: "ml", Name: "v", Node: "n"})
	}
	for wide, want := range map[bool][]string{
		false: {"and 7 pods of others).", "... and 2 more victims: -o wide\n",
			"... and 16 more unplaced pods: -o wide\n"},
		true: {"and 7 pods of others).", "... and 9 more unplaced pods\n"},
	} {
		var out bytes.Buffer
		if err := Simulation(terminal.Plain(&out, 100), s, wide); err != nil {
			t.Fatal(err)
		}
		for _, text := range want {
			if !strings.Contains(out.String(), text) {
				t.Errorf("wide %t: no %q in %s", wide, text, &out)
			}
		}
		if strings.Count(out.String(), "... and") != len(want)-1 {
			t.Errorf("wide %t: %s", wide, &out)
		}
	}
}

func TestPrintColumnsByWhatChanges(t *testing.T) {
	for want, spec := range map[string]v1alpha1.SimulationSpec{
		"ACTUAL NEW NODES":     {Nodes: v1alpha1.NodeChanges{RemoveSelector: "a=b"}, SchedulerName: "x"},
		"ACTUAL NEW SCHEDULER": {SchedulerName: "x"},
		"ACTUAL CURRENT SPEC":  {},
	} {
		s := simulated()
		s.Spec, s.Status.New = spec, nil
		var out bytes.Buffer
		if err := printOutcomes(terminal.Plain(&out, 100), s); err != nil {
			t.Fatal(err)
		}
		header, _, _ := strings.Cut(out.String(), "\n")
		if got := strings.Join(strings.Fields(header), " "); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestPrintThatThereAreNoPods(t *testing.T) {
	for _, test := range []struct {
		namespace string
		spec      v1alpha1.SimulationSpec
		want      string
	}{
		{"nons", v1alpha1.SimulationSpec{}, "There are no bound pods of livesched's profiles in namespace nons."},
		{"", v1alpha1.SimulationSpec{Pods: v1alpha1.PodSelection{Type: v1alpha1.PodsPending, LabelSelector: "app=x"}},
			"There are no pending pods of livesched's profiles with app=x."},
		{"ml", v1alpha1.SimulationSpec{SchedulerName: "mine",
			Pods: v1alpha1.PodSelection{Type: v1alpha1.PodsAll, Names: []string{"p"}}},
			"There are no pods in namespace ml named p."},
	} {
		s := &v1alpha1.Simulation{Spec: test.spec}
		s.Metadata.Namespace = test.namespace
		var out bytes.Buffer
		if err := Simulation(terminal.Plain(&out, 100), s, false); err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(text, test.want) ||
			strings.Contains(text, "ACTUAL") {
			t.Errorf("got %s, want %s", text, test.want)
		}
	}
}

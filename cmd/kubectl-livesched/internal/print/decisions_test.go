// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package print

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/terminal"
)

var decidedAt = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// someDecisions are of all kinds.
func someDecisions() []v1alpha1.Decision {
	ago := func(d time.Duration) metav1.MicroTime { return metav1.NewMicroTime(decidedAt.Add(-d)) }
	return []v1alpha1.Decision{
		{
			Time: ago(4 * time.Second), Namespace: "ml", Pod: "train-7", PodUID: "1", Attempt: 3, Profile: "gpu",
			Revision: "5d9c7b6f84",
			Result:   v1alpha1.DecisionBound, Node: "node-3", Nodes: 912, Feasible: 12, Total: 211, Tied: 2,
			Repeated: 1,
		},
		{
			Time: ago(10 * time.Second), Namespace: "ml", Pod: "greedy", PodUID: "2", Attempt: 87, Profile: "gpu",
			Revision: "5d9c7b6f84",
			Result:   v1alpha1.DecisionUnschedulable, Nodes: 912, Repeated: 86,
			Message: "0/912 nodes are available: 3 node(s) had untolerated taint(s), 909 Insufficient " +
				"nvidia.com/gpu. " +
				"preemption: 0/912 nodes are available: 912 Preemption is not helpful " +
				"for scheduling.",
		},
		{
			Time: ago(11 * time.Second), Namespace: "ml", PodGroup: "train", Attempt: 2, Profile: "gpu",
			Revision: "5d9c7b6f84",
			Result:   v1alpha1.DecisionUnschedulable, Nodes: 912, Repeated: 1,
			Message: "pod group ml/train: 64 pods must be placed together, but there are resources for 60 of them at " +
				"most; preemption: evicting 3 pods",
		},
		{
			Time: ago(12 * time.Second), Namespace: "ml", Pod: "train-6", PodUID: "3", Attempt: 1, Profile: "gpu",
			Revision: "5d9c7b6f84",
			Result:   v1alpha1.DecisionBindFailed, Node: "node-4", Nodes: 91, Feasible: 1, Evaluated: 40,
			Repeated: 1,
			Message:  "the node is gone",
		},
	}
}

func TestDecisionsArePrinted(t *testing.T) {
	for name, test := range map[string]struct {
		width int
		table DecisionTable
		want  string
	}{
		"without a terminal": {0, DecisionTable{}, `
AGE   POD              RESULT              FITS     NODE OR REASON
4s    train-7          Bound               12/912   node-3
10s   greedy           Unschedulable x86   0/912    3 node(s) had untolerated taint(s), 909 Insufficient nvidia.com/gpu
11s   podgroup/train   Unschedulable       -        64 pods must be placed together, but there are resources for 60 of them at most; preemption: evicting 3 pods
12s   train-6          BindFailed          >=1/91   node-4: the node is gone
`},
		"80 columns": {80, DecisionTable{}, `
AGE   POD              RESULT              NODE OR REASON
4s    train-7          Bound               node-3
10s   greedy           Unschedulable x86   3 node(s) had untolerated taint(s),
                                           909 Insufficient nvidia.com/gpu
11s   podgroup/train   Unschedulable       64 pods must be placed together, but
                                           there are resources for 60 of them at
                                           most; preemption: evicting 3 pods
12s   train-6          BindFailed          node-4: the node is gone
`},
		"of all namespaces, without nodes": {120, DecisionTable{Namespaces: true, Hidden: true}, `
AGE   NAMESPACE   POD              RESULT              FITS     NODE OR REASON
4s    ml          train-7          Bound               12/912   (hidden)
10s   ml          greedy           Unschedulable x86   0/912    3 node(s) had untolerated taint(s), 909 Insufficient
                                                                nvidia.com/gpu
11s   ml          podgroup/train   Unschedulable       -        64 pods must be placed together, but there are resources
                                                                for 60 of them at most; preemption: evicting 3 pods
12s   ml          train-6          BindFailed          >=1/91   (hidden): the node is gone
Node names are hidden: you may not list nodes.
`},
		"wide": {0, DecisionTable{Wide: true}, `
AGE   POD              RESULT              NODE     FITS     SCORE   TIED   TRY   PROFILE          REASON
4s    train-7          Bound               node-3   12/912   211     2      3     gpu@5d9c7b6f84   -
10s   greedy           Unschedulable x86   -        0/912    -       -      87    gpu@5d9c7b6f84   ` +
			someDecisions()[1].Message + `
11s   podgroup/train   Unschedulable       -        -        -       -      2     gpu@5d9c7b6f84   ` +
			someDecisions()[2].Message + `
12s   train-6          BindFailed          node-4   >=1/91   -       -      1     gpu@5d9c7b6f84   the node is gone
`},
	} {
		t.Run(name, func(t *testing.T) {
			decisions := someDecisions()
			if test.table.Hidden {
				for i := range decisions {
					decisions[i].Node = ""
				}
			}
			var out bytes.Buffer
			if err := test.table.Print(terminal.Plain(&out, test.width), decisions, decidedAt); err != nil {
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

func TestDecisionsOfAnOlderLivesched(t *testing.T) {
	var out bytes.Buffer
	decisions := []v1alpha1.Decision{{Time: metav1.NewMicroTime(decidedAt), PodUID: "a-uid",
		Result: v1alpha1.DecisionUnschedulable, Nodes: 3}}
	if err := (&DecisionTable{}).Print(&out, decisions, decidedAt); err != nil ||
		!strings.HasSuffix(out.String(), "\n0s    a-uid   Unschedulable   0/3    -\n") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestPartsOfATableAreAligned(t *testing.T) {
	var out bytes.Buffer
	table := &DecisionTable{}
	for _, part := range [][]v1alpha1.Decision{someDecisions()[1:2], someDecisions()[:1], nil, someDecisions()[2:]} {
		for i := range part {
			part[i].Repeated = 0
			part[i].Time = metav1.NewMicroTime(decidedAt.Local())
		}
		if err := table.PrintPart(terminal.Plain(&out, 80), part); err != nil {
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

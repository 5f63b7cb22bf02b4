// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
)

func TestPrintDecisions(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) metav1.MicroTime { return metav1.NewMicroTime(now.Add(-d)) }
	decisions := []v1alpha1.Decision{
		{
			Time: ago(4 * time.Second), Namespace: "ml", Pod: "train-7", PodUID: "1", Attempt: 3, Profile: "gpu", Revision: "5d9c7b6f84",
			Result: v1alpha1.DecisionBound, Node: "node-3", Nodes: 912, Feasible: 12, Total: 211, Tied: 2,
		},
		{
			Time: ago(10 * time.Second), PodUID: "a-uid", Attempt: 2, Profile: "gpu", Revision: "5d9c7b6f84",
			Result: v1alpha1.DecisionUnschedulable, Nodes: 912,
		},
	}
	for namespaces, want := range map[bool]string{
		false: `AGE   POD       RESULT          NODE     FITS     SCORE   TIED   TRY   PROFILE
4s    train-7   Bound           node-3   12/912   211     2      3     gpu@5d9c7b6f84
10s   a-uid     Unschedulable   -        0/912    -       -      2     gpu@5d9c7b6f84
`,
		true: `AGE   POD          RESULT          NODE     FITS     SCORE   TIED   TRY   PROFILE
4s    ml/train-7   Bound           node-3   12/912   211     2      3     gpu@5d9c7b6f84
10s   a-uid        Unschedulable   -        0/912    -       -      2     gpu@5d9c7b6f84
`,
	} {
		var out bytes.Buffer
		if err := printDecisions(&out, decisions, namespaces, now); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Error(diff)
		}
	}
	var out bytes.Buffer
	if err := printDecisions(&out, nil, false, now); err != nil || out.String() != "There are no decisions since the leader began.\n" {
		t.Error(err, out.String())
	}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"

	"github.com/livesched/livesched/internal/scheduler/algorithm"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/internal/scheduler/metrics"
	"github.com/livesched/livesched/internal/scheduler/podgroup"
)

const podUID = "3c5f0e1a-92b7-4d6c-8a41-f0e9d8c7b6a5"

func TestDecisionsAreRecorded(t *testing.T) {
	metrics.Register()
	for name, test := range map[string]struct {
		point string // where a plugin fails
		cpu   string
		want  decisionlog.Decision
	}{
		"a pod that is assumed":           {"", "1", decisionlog.Decision{Node: "n", Feasible: 1, Evaluated: 1, Tied: 1, Result: decisionlog.Binding}},
		"a pod that fits nowhere":         {"", "100", decisionlog.Decision{Result: decisionlog.Unschedulable}},
		"a decision that fails":           {"Filter", "1", decisionlog.Decision{Result: decisionlog.Failed}},
		"a pod that Reserve does not let": {"Reserve", "1", decisionlog.Decision{Node: "n", Feasible: 1, Evaluated: 1, Tied: 1, Result: decisionlog.BindFailed}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logr.Discard()))
				defer cancel()
				c := newCycle(ctx, t, &slow{point: test.point})
				c.loop.Decisions = decisionlog.New(10)
				c.pod.Attempts = 3
				c.pod.Pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(test.cpu)
				c.pod.Pod.UID = podUID
				c.placeInTime(ctx)
				got, _ := c.loop.Decisions.OfPod(c.pod.Pod.UID)
				if test.want.Node != "" && got.Top == nil {
					t.Error("the first decision was not sampled")
				}
				want := test.want
				want.Number, want.Pod, want.Time, want.Attempt, want.Nodes = 1, podUID, c.start, 3, 1
				want.Profile, want.Revision = c.profile.Config.Name, c.profile.Config.Revision
				want.Snapshot = c.loop.Snapshot.Changes()
				got.Top = nil
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("the record (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestRecordingAllocatesNothing is about a decision that is not sampled.
func TestRecordingAllocatesNothing(t *testing.T) {
	ctx := klog.NewContext(t.Context(), logr.Discard())
	c := newCycle(ctx, t, &slow{})
	c.loop.Decisions = decisionlog.New(10)
	c.pod.Pod.UID = podUID
	result := algorithm.Result{SuggestedHost: "n", EvaluatedNodes: 1, FeasibleNodes: 1}
	c.within = podgroup.Domain{{Key: "rack", Value: "r1"}}
	if allocs := testing.AllocsPerRun(100, func() { c.record(ctx, &result, nil) }); allocs != 0 {
		t.Errorf("recording a decision allocates %v times", allocs)
	}
	if n := len(c.loop.Decisions.Last(10)); n != 10 {
		t.Errorf("%d decisions are recorded, want 10", n)
	}
}

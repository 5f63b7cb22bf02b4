// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/profile"
	"github.com/livesched/livesched/internal/scheduler/resolve"
)

var now = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

func newTestCounts() *counts {
	next := &profile.Instance{Config: &resolve.Profile{Name: "next", Revision: "r2"}}
	return newCounts(next, &resolve.Profile{Name: "shop", Revision: "r1"}, now)
}

func TestReport(t *testing.T) {
	c := newTestCounts()
	for _, found := range []comparison{
		{verdict: agreed}, {verdict: agreed}, {verdict: agreed},
		{verdict: nodeScoredLower, point: scorePoint, plugin: "ImageLocality", loss: 30, scored: true},
		{verdict: nodeScoredLower, point: scorePoint, plugin: "ImageLocality", loss: 10, scored: true},
		{verdict: nodeScoredLower}, // without a cause
		{verdict: nodeRefused, point: filterPoint, plugin: "NodeAffinity"},
		{verdict: activeOnlyFits, point: filterPoint, plugin: "NodeAffinity", text: "Pod shop/a"},
		{verdict: activeOnlyFits, point: filterPoint, plugin: "NodeAffinity"},
		{verdict: shadowOnlyFits, point: filterPoint, plugin: "TaintToleration"},
		{verdict: skipped}, {verdict: skipped},
	} {
		c.add(found)
	}
	want := &v1alpha1.ShadowStatus{
		Profile: "shop", ProfileRevision: "r1", Revision: "r2", Since: metav1.NewTime(now),
		Decisions: 10, Agreed: 3, NodeScoredLower: 3, NodeRefused: 1, ActiveOnlyFits: 2, ShadowOnlyFits: 1, Skipped: 2,
		ScoreLoss: &v1alpha1.ShadowScoreLoss{Samples: 2, P50: 10, P99: 10, Max: 30},
		Causes: []v1alpha1.ShadowCause{
			{Plugin: "NodeAffinity", ExtensionPoint: filterPoint, Decisions: 3},
			{Plugin: "ImageLocality", ExtensionPoint: scorePoint, Decisions: 2},
			{Plugin: "TaintToleration", ExtensionPoint: filterPoint, Decisions: 1},
		},
		FirstMismatch: "Pod shop/a",
	}
	got := c.report()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the report (-want +got):\n%s", diff)
	}
	got.Causes[0].Plugin = "changed"
	if c.report().Causes[0].Plugin != "NodeAffinity" {
		t.Error("the report shares memory with the counts")
	}
}

func TestOnlyTheLatestScoreLossesAreKept(t *testing.T) {
	c := newTestCounts()
	for i := range 3 * maxLosses {
		c.add(comparison{verdict: nodeScoredLower, scored: true, loss: int64(i)})
	}
	want := &v1alpha1.ShadowScoreLoss{
		Samples: maxLosses, P50: 2*maxLosses + (maxLosses-1)*50/100, P99: 2*maxLosses + (maxLosses-1)*99/100,
		Max: 3*maxLosses - 1,
	}
	if diff := cmp.Diff(want, c.report().ScoreLoss); diff != "" {
		t.Errorf("the score loss (-want +got):\n%s", diff)
	}
}

func TestFewCausesAreReported(t *testing.T) {
	c := newTestCounts()
	for i := range 2 * maxCauses {
		for range i + 1 {
			c.add(comparison{verdict: nodeRefused, point: filterPoint, plugin: string(rune('A' + i))})
		}
	}
	causes := c.report().Causes
	if len(causes) != maxCauses || causes[0].Plugin != string(rune('A'+2*maxCauses-1)) {
		t.Errorf("the causes are %v", causes)
	}
}

func TestBudget(t *testing.T) {
	var b budget
	at := now
	if !b.has(at) {
		t.Fatal("a budget that has rested is empty")
	}
	// Each decision takes 1 ms, and the next one is asked for 1 ms later.
	made := 0
	for range 10_000 {
		at = at.Add(time.Millisecond)
		if b.has(at) {
			b.spend(time.Millisecond)
			made++
		}
	}
	if made < 1000 || made > 1000+int(burst/time.Millisecond)+1 {
		t.Errorf("%d decisions of 1 ms were made in 10 s", made)
	}
	b.spend(time.Hour)
	if b.has(at.Add(time.Minute)) {
		t.Error("a decision that took an hour is forgotten after a minute")
	}
	if !b.has(at.Add(share * 2 * time.Hour)) {
		t.Error("a decision that took an hour is never forgotten")
	}
	if !b.has(at.Add(-time.Hour)) {
		t.Error("a clock that was set back stops shadows")
	}
}

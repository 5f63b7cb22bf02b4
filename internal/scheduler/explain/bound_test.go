// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/decisionlog"
	"github.com/livesched/livesched/internal/scheduler/explain"
)

func TestARecordedDecision(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	bound := pod("bound", "1", "1Gi")
	bound.Spec.NodeName = "n1"
	d := decisionlog.Decision{
		Time: now.Add(-time.Hour), Profile: "spread", Revision: "b47874bsgc", Nodes: 5000, Evaluated: 5000,
		Feasible: 4812,
		Node:     "n1", Total: 150, Tied: 36,
	}
	b := explain.Bound{Pod: bound, Decision: &d, Changes: 412, Now: now}
	if b.IsRecorded() {
		t.Error("the scores by plugin are not recorded")
	}
	d.Top = []fwk.NodePluginScores{
		{Name: "n1", TotalScore: 150,
			Scores: []fwk.PluginScore{{Name: "NodeResourcesFit", Score: 62},
				{Name: "NodeResourcesBalancedAllocation", Score: 88}}},
		{Name: "n2", TotalScore: 149, Scores: []fwk.PluginScore{{Name: "NodeResourcesFit", Score: 149}}},
	}
	if !b.IsRecorded() {
		t.Error("the scores by plugin are recorded")
	}
	x := explain.Recorded(b)
	want := &v1alpha1.BoundExplanation{
		Node: "n1", Basis: v1alpha1.BasisRecorded, Changes: 412, Decided: metav1.NewTime(d.Time), Tied: 36,
		Top: []v1alpha1.NodeScore{
			{Node: "n1", Total: 150,
				Scores: map[string]int64{"NodeResourcesFit": 62, "NodeResourcesBalancedAllocation": 88}},
			{Node: "n2", Total: 149, Scores: map[string]int64{"NodeResourcesFit": 149}},
		},
	}
	if diff := cmp.Diff(want, x.Bound); diff != "" {
		t.Errorf("the explanation (-want +got):\n%s", diff)
	}
	if x.Verdict != v1alpha1.VerdictBound || x.Pending != nil || x.Profile != "spread" || x.Revision != d.Revision ||
		x.Nodes != 5000 || x.Feasible != 4812 {
		t.Errorf("the explanation is %+v", x)
	}
	if want := "The pod fitted on 4812 of 5000 nodes. 36 of them shared the highest total, 150, and this one was " +
		"drawn."; x.Message != want {
		t.Errorf("the message is %s", x.Message)
	}
	d.Feasible, d.Tied, d.Top, d.Total = 1, 1, nil, 0
	if x := explain.Recorded(b); !b.IsRecorded() ||
		x.Message != "Of 5000 nodes, the pod fitted only this one, which was not scored." {
		t.Errorf("the only node: %s", x.Message)
	}
	d.Evaluated, d.Partial, d.Total = 12, true, 150
	if x := explain.Recorded(b); b.IsRecorded() || x.Bound.Evaluated != 12 || x.Message !=
		"livesched evaluated 12 of 5000 nodes, and the pod fitted on 1 of those. This one had the highest total, 150." {
		t.Errorf("the first of some nodes, with evaluated %d: %s", x.Bound.Evaluated, x.Message)
	}
	d.Total = 0
	if x := explain.Recorded(b); !b.IsRecorded() || x.Message !=
		"livesched evaluated 12 of 5000 nodes, and the pod fitted on 1 of those. It was not scored." {
		t.Errorf("a nominated node: %s", x.Message)
	}
}

func TestARecordedDecisionWithoutScoresIsMadeAgain(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "web", "4", "8Gi")
	c.node("n2", "web", "4", "8Gi")
	bound := c.run(pod("bound", "1", "1Gi"), "n1")
	decided := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	d := &decisionlog.Decision{Time: decided, Profile: "old", Revision: "b47874bsgc", Nodes: 9, Feasible: 7, Node: "n1",
		Total: 150, Tied: 1}
	x := c.recomputeBound(explain.Bound{Pod: bound, Decision: d, Changes: 412, Now: decided.Add(time.Hour)})
	if x.Profile != "old" || x.Revision != "b47874bsgc" || x.Bound.Changes != 412 ||
		!x.Bound.Decided.Time.Equal(decided) {
		t.Errorf("the decision is not the recorded one: %+v, %+v", x, x.Bound)
	}
	if x.Nodes != 2 || x.Feasible != 2 || x.Bound.Tied != 2 || len(x.Bound.Top) != 2 || x.Bound.Top[0].Node != "n1" {
		t.Errorf("the scores do not reflect the present state: %+v, %+v", x, x.Bound)
	}
	for _, want := range []string{
		"The pod fitted on 7 of 9 nodes. This one had the highest total, 150. The scores by plugin were not " +
			"recorded. Decided again in the present state of the cluster by ",
		", its node is one of 2 with the highest total.",
	} {
		if !strings.Contains(x.Message, want) {
			t.Errorf("the message is %s", x.Message)
		}
	}
}

// recompute explains a pod that is on a node, and whose decision was not recorded.
func (c *cluster) recompute(p *corev1.Pod) *v1alpha1.PodExplanation {
	c.Helper()
	return c.recomputeBound(explain.Bound{Pod: p, Now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)})
}

func (c *cluster) recomputeBound(b explain.Bound) *v1alpha1.PodExplanation {
	c.Helper()
	k, err := c.Forker.Fork(c.Context())
	c.must(err)
	defer k.Close()
	x, err := explain.Recompute(c.Context(), k, b)
	c.must(err)
	if x.Verdict != v1alpha1.VerdictBound || x.Bound.Basis != v1alpha1.BasisRecomputed ||
		x.Bound.Node != b.Pod.Spec.NodeName {
		c.Errorf("the explanation is %+v", x)
	}
	return x
}

func TestARecomputedDecision(t *testing.T) {
	c := newCluster(t)
	for _, name := range []string{"n1", "n2", "n3"} {
		c.node(name, "web", "4", "8Gi")
	}
	c.node("small", "web", "1", "1Gi")
	c.run(pod("other", "2", "1Gi"), "n2")
	onBest, onOther := c.run(pod("on-best", "2", "1Gi"), "n1"), c.run(pod("on-other", "2", "1Gi"), "n2")

	x := c.recompute(onBest)
	if x.Nodes != 4 || x.Feasible != 2 || x.Bound.Tied != 2 || len(x.Bound.Top) != 2 || x.Bound.Top[0].Node != "n1" ||
		x.Bound.Top[0].Scores["NodeResourcesFit"] == 0 {
		t.Errorf("on one of the best: %+v, %+v", x, x.Bound)
	}
	if !strings.Contains(x.Message, "its node is one of 2 with the highest total.") {
		t.Errorf("on one of the best: %s", x.Message)
	}
	x = c.recompute(onOther)
	if x.Feasible != 3 || x.Bound.Tied != 1 || x.Bound.Top[0].Node != "n2" || x.Bound.Top[1].Node != "n3" ||
		x.Bound.Top[1].Total <= x.Bound.Top[0].Total {
		t.Errorf("on another: %+v, %+v", x, x.Bound)
	}
	if !strings.Contains(x.Message, "another node would have a higher total.") {
		t.Errorf("on another: %s", x.Message)
	}
	if c.Cache.Size().Pods != 3 {
		t.Error("the running scheduler has changed")
	}

	cordoned := c.run(pod("cordoned", "1", "1Gi",
		func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"gone": "yes"} }), "n3")
	if x := c.recompute(cordoned); x.Feasible != 0 || x.Nodes != 4 ||
		!strings.Contains(x.Message, "it would fit on none of 4 nodes") {
		t.Errorf("fits nowhere: %+v", x)
	}
	foreign := c.run(pod("foreign", "1", "1Gi", func(p *corev1.Pod) { p.Spec.SchedulerName = "else" }), "n3")
	if x := c.recompute(foreign); x.Profile != "" ||
		!strings.HasPrefix(x.Message,
			`The decision was not recorded. No SchedulerProfile has the scheduler name "else".`) {
		t.Errorf("of another scheduler: %+v", x)
	}
}

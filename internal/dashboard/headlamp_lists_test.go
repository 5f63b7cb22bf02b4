// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/words"
	"github.com/livesched/livesched/test/dashboarddata"
)

// shownKinds is what the overview says about pending pods.
type shownKinds struct {
	Text   string      `json:"text"`
	Oldest string      `json:"oldest"`
	Left   int32       `json:"left"`
	Rows   []shownKind `json:"rows"`
}

type shownKind struct {
	Name     string `json:"name"`
	Place    string `json:"place"`
	Age      string `json:"age"`
	Requests string `json:"requests"`
	Reason   string `json:"reason"`
	Class    string `json:"class"`
}

type shownProfile struct {
	Name          string `json:"name"`
	SchedulerName string `json:"schedulerName"`
	Revision      string `json:"revision"`
	Age           string `json:"age"`
	Ready         string `json:"ready"`
	Problem       string `json:"problem"`
	Rollout       string `json:"rollout"`
	RolloutBad    bool   `json:"rolloutBad"`
	Shadow        string `json:"shadow"`
}

// kindExamples has lists of kinds of pending pods.
func kindExamples(t *testing.T) map[string]example[*v1alpha1.PendingKindList, shownKinds] {
	examples := map[string]example[*v1alpha1.PendingKindList, shownKinds]{}
	for name, source := range map[string]*dashboarddata.Source{
		"none": {Nodes: 400}, "one": {Nodes: 400, Kinds: 1, Pods: 1}, "some": {Nodes: 400, Kinds: 4, Pods: 1312},
		"more": {Nodes: 400, Kinds: 53, Pods: 90000},
	} {
		list, err := source.PendingKinds(t.Context(), "", listedKinds)
		if err != nil {
			t.Fatal(err)
		}
		if name == "some" {
			list.Items[0].Pods, list.Items[0].Gated = list.Items[0].Pods+7, 5
			list.Items[3].Owner, list.Items[3].PodGroup, list.Items[3].Profile = "", "builds", ""
			list.Items[3].Requests = corev1.ResourceList{"cpu": resource.MustParse("1500m"),
				"pods": resource.MustParse("1"), "memory": resource.MustParse("0")}
		}
		verdict := loadVerdict(t.Context(), listed{source, list}, "").Data
		shown := shownKinds{Text: verdict.Text, Oldest: verdict.Oldest,
			Left: loadKinds(t.Context(), listed{source, list}, "", false).Data.Left}
		for i := range list.Items {
			k := rowOf(&list.Items[i])
			shown.Rows = append(shown.Rows, shownKind{k.Name, k.Place, age(k.Since.Time), requestsWords(k.Requests),
				words.ShortReason(k.Message), resultClass(k.Result)})
		}
		examples[name] = example[*v1alpha1.PendingKindList, shownKinds]{list, shown}
	}
	return examples
}

// listed is a source with one list of kinds.
type listed struct {
	*dashboarddata.Source
	list *v1alpha1.PendingKindList
}

func (s listed) PendingKinds(context.Context, string, int) (*v1alpha1.PendingKindList, error) {
	return s.list, nil
}

// profileExamples has a profile in each state.
func profileExamples(t *testing.T) example[*v1alpha1.SchedulerProfileList, []shownProfile] {
	profiles, err := cluster().Profiles(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	untouched := v1alpha1.SchedulerProfile{ObjectMeta: metav1.ObjectMeta{Name: "untouched", Generation: 1}}
	stale := *profiles[0].DeepCopy()
	stale.Name, stale.Generation, stale.Status.Conditions[0].ObservedGeneration = "stale", 3, 2
	stale.Status.Conditions[1].ObservedGeneration = 2
	degraded := *profiles[1].DeepCopy()
	degraded.Name, degraded.Status.Rollout.Phase = "degraded", v1alpha1.RolloutDegraded
	degraded.Status.Rollout.Stage, degraded.Status.Rollout.Weight = "Aborted", 0
	aborted := *degraded.DeepCopy()
	aborted.Name, aborted.Status.Rollout.Stage = "aborted", ""
	healthy := *profiles[1].DeepCopy()
	healthy.Name, healthy.Status.Rollout.Phase = "healthy", v1alpha1.RolloutHealthy
	idle := *profiles[2].DeepCopy()
	idle.Name, idle.Status.Shadow.Decisions, idle.Status.Shadow.Agreed = "idle", 0, 0
	first := *profiles[2].DeepCopy()
	first.Name, first.Status.Shadow = "first", nil
	first.Spec.Shadow = &v1alpha1.ShadowSpec{ProfileRef: v1alpha1.ProfileReference{Name: "default"}}
	profiles = append(profiles, untouched, stale, degraded, aborted, healthy, idle, first)
	e := example[*v1alpha1.SchedulerProfileList, []shownProfile]{
		Answer: &v1alpha1.SchedulerProfileList{Items: profiles},
	}
	for i := range profiles {
		row := profileRowOf(&profiles[i])
		shown := shownProfile{row.Name, row.SchedulerName, row.Revision, "", row.Ready, row.Problem, row.Rollout,
			row.RolloutBad, row.Shadow}
		if row.Revision != "" {
			shown.Age = age(row.Since.Time)
		}
		e.Shown = append(e.Shown, shown)
	}
	return e
}

// wordExamples has texts that the examples above do not have.
func wordExamples() map[string]any {
	spans := map[int64]string{}
	for _, d := range []time.Duration{0, 999, 1000, 119_999, 120_000, 7_199_000, 7_200_000, 172_799_000, 172_800_000,
		9_000_000_000} {
		spans[int64(d)] = span(d * time.Millisecond)
	}
	type many struct {
		N    int64  `json:"n"`
		Noun string `json:"noun"`
		Text string `json:"text"`
	}
	var counts []many
	for _, m := range []many{{0, "pod", ""}, {1, "pod", ""}, {1234567, "policy", ""}, {2, "class", ""}} {
		counts = append(counts, many{m.N, m.Noun, words.Many(m.N, m.Noun)})
	}
	most := resource.MustParse("12")
	var refusals []example[v1alpha1.Refusal, string]
	for _, r := range []v1alpha1.Refusal{
		{Plugin: "NodePorts"}, {Plugin: "NodePorts", Messages: []string{"no free ports."}},
		{Plugin: "NodeResourcesFit", Detail: "has no nvidia.com/gpu (of 8)",
			ShortBy: []v1alpha1.Shortage{{Resource: "nvidia.com/gpu", Quantity: most},
				{Resource: "pods", Quantity: most, Nodes: 1200, Most: &most}}},
	} {
		refusals = append(refusals, example[v1alpha1.Refusal, string]{r, words.Refusal(&r)})
	}
	var groups []example[v1alpha1.PodGroupFit, string]
	for _, g := range []v1alpha1.PodGroupFit{
		{Name: "train", Needed: 16, Ready: 1, Fit: 1}, {Name: "train", Needed: 1200, Ready: 1300, Fit: 0, Incomplete: true},
		{Name: "tree", Composite: true, Needed: 1, Ready: 2, Fit: 1, Domain: "example.com/rack=r7"},
	} {
		groups = append(groups, example[v1alpha1.PodGroupFit, string]{g, words.PodGroup(&g, false)})
	}
	var reasons []example[string, string]
	for _, message := range []string{
		"", "0/400 nodes are available: 400 Insufficient memory.",
		"pod group train:  16 pods\nare needed. no new claims to deallocate, preemption: 0/4 nodes are available: 4 x.",
	} {
		reasons = append(reasons, example[string, string]{message, words.ShortReason(message)})
	}
	var partials []example[v1alpha1.NodeGroup, string]
	for _, g := range []v1alpha1.NodeGroup{
		{Partial: true}, {Refusals: []v1alpha1.Refusal{{Plugin: "A"}, {Plugin: "A"}}},
	} {
		partials = append(partials, example[v1alpha1.NodeGroup, string]{g, words.WhyNot(&g)})
	}
	var shadows []example[v1alpha1.ShadowStatus, string]
	for _, s := range []v1alpha1.ShadowStatus{{}, {Decisions: 3, Agreed: 2}, {Decisions: 100000, Agreed: 99999},
		{Decisions: 5, Agreed: 5}} {
		shadows = append(shadows, example[v1alpha1.ShadowStatus, string]{s, words.Agreement(&s)})
	}
	results := map[string]string{"": resultClass("")}
	for _, name := range v1alpha1.DecisionResultNames {
		results[name] = resultClass(v1alpha1.DecisionResult(name))
	}
	statuses := map[int]string{}
	for status, title := range titles {
		statuses[status] = title
	}
	slices.SortFunc(counts, func(a, b many) int { return cmp.Compare(a.N, b.N) })
	return map[string]any{"spans": spans, "counts": counts, "refusals": refusals, "groups": groups, "reasons": reasons,
		"whyNot": partials, "agreement": shadows, "results": results, "titles": statuses}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/words"
	"github.com/livesched/livesched/test/dashboarddata"
)

// fixtures are the examples that the tests of the Headlamp plugin read: answers of livesched, and
// what this package shows for them. So the plugin reads today's types, and uses the same words.
const fixtures = "../../ui/headlamp/fixtures"

var update = flag.Bool("update", false, "write the fixtures of the Headlamp plugin")

// shownExplanation is what the page of a pod and the row of its kind say.
type shownExplanation struct {
	Headline string      `json:"headline"`
	Class    string      `json:"class"`
	Facts    []shownFact `json:"facts"`
	Shortage []string    `json:"shortage"`
	Tried    []string    `json:"tried"`
	Untried  []string    `json:"untried"`
	Group    string      `json:"group"`
	Waits    []string    `json:"waits"`
	Refusals []string    `json:"refusals"` // of the pod, whatever the node is
	WhyNot   []string    `json:"whyNot"`   // by group of nodes
	Scores   *shownTable `json:"scores"`
	Row      shownRow    `json:"row"`
}

type shownFact struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

type shownTable struct {
	Plugins []string   `json:"plugins"`
	Rows    []shownSum `json:"rows"`
	Equal   string     `json:"equal"`
	Hidden  bool       `json:"hidden"`
}

type shownSum struct {
	Node   string  `json:"node"`
	Chosen bool    `json:"chosen"`
	Total  int64   `json:"total"`
	Scores []int64 `json:"scores"`
}

type shownRow struct {
	Headline string `json:"headline"`
	Why      string `json:"why"`
	Nodes    string `json:"nodes"`
	Help     string `json:"help"`
	Tried    bool   `json:"tried"`
}

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

// example is an answer, and what is shown for it.
type example[A, S any] struct {
	Answer A `json:"answer"`
	Shown  S `json:"shown"`
}

func TestTheHeadlampPluginIsTestedWithTodaysTypesAndWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the time is 2000-01-01T00:00:00Z
		compareWithFixture(t, "explanations.json", explanationExamples(t))
		compareWithFixture(t, "pendingkinds.json", kindExamples(t))
		compareWithFixture(t, "profiles.json", profileExamples(t))
		compareWithFixture(t, "words.json", wordExamples())
	})
}

func compareWithFixture(t *testing.T, name string, content any) {
	t.Helper()
	var want bytes.Buffer
	encoder := json.NewEncoder(&want)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(content); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(fixtures, name)
	if *update {
		if err := os.WriteFile(path, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%s is not what livesched answers and says today. Run `go test ./internal/dashboard -update`, and "+
			"let ui/headlamp/src follow: `make test-headlamp` shows where it does not", path)
	}
}

// explained is a source with one explanation.
type explained struct {
	*dashboarddata.Source
	explanation *v1alpha1.PodExplanation
}

func (s explained) Explain(context.Context, types.NamespacedName, string,
	time.Duration) (*v1alpha1.PodExplanation, error) {
	return s.explanation, nil
}

// explanationExamples has an explanation for each state of a pod, by the name of the state.
func explanationExamples(t *testing.T) map[string]example[*v1alpha1.PodExplanation, shownExplanation] {
	of := func(namespace, name string) *v1alpha1.PodExplanation {
		e, err := cluster().Explain(t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, "", 0)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	pending := func(name string, verdict v1alpha1.Verdict, p v1alpha1.PendingExplanation) *v1alpha1.PodExplanation {
		p.Since = metav1.NewTime(time.Now().Add(-3 * time.Hour))
		return &v1alpha1.PodExplanation{
			Metadata: metav1.ObjectMeta{Namespace: "ml", Name: name}, Time: metav1.Now(), Verdict: verdict,
			SchedulerName: "gpu", Profile: "gpu", Revision: "b47874bsgc", Nodes: 400, Pending: &p,
		}
	}
	noProfile := pending("orphan", v1alpha1.VerdictNoProfile, v1alpha1.PendingExplanation{})
	noProfile.SchedulerName, noProfile.Profile, noProfile.Revision = "gpus", "", ""
	noProfile.Message = "No SchedulerProfile has the scheduler name gpus. Did you mean gpu?"
	unknown := pending("failing", v1alpha1.VerdictUnknown, v1alpha1.PendingExplanation{Attempts: 1, Place: "ErrorBackoff"})
	unknown.Message = `plugin "VolumeBinding": timed out`
	group := of("ml", "llama-train-0")
	group.Verdict, group.Pending.PodGroup.Composite = v1alpha1.VerdictGroupDoesNotFit, true
	group.Pending.PodGroup.Incomplete = true
	hidden := of("shop", dashboarddata.BoundPod)
	hidden.Bound.Node, hidden.Bound.Basis, hidden.Bound.Decided = "", v1alpha1.BasisRecomputed, metav1.Time{}
	for i := range hidden.Bound.Top {
		hidden.Bound.Top[i].Node = ""
	}
	examples := map[string]example[*v1alpha1.PodExplanation, shownExplanation]{}
	for name, e := range map[string]*v1alpha1.PodExplanation{
		"fitsWhenFreed": of("ml", "llama-train-0"), "neverFits": of("batch", "nightly-report-28401-x7k2p"),
		"spread": of("shop", "checkout-7d4f9c6b5d-x2x4z"), "waitsForTurn": of("ci", "build-4471"),
		"waitsForVictims": of("ml", dashboarddata.Preemptor), "bound": of("shop", dashboarddata.BoundPod),
		"boundOnHiddenNode": hidden, "groupDoesNotFit": group, "noProfile": noProfile, "unknown": unknown,
		"gated": pending("gated", v1alpha1.VerdictGated, v1alpha1.PendingExplanation{Place: "Gated",
			Gates: []string{"example.com/quota", "example.com/images"}, GatingPlugin: "SchedulingGates",
			GatingMessage: "waiting for scheduling gates"}),
		"binding": pending("binding", v1alpha1.VerdictBinding, v1alpha1.PendingExplanation{Place: "InFlight",
			NominatedNode: "ip-10-21-0-7.eu-west-1.compute.internal"}),
		"claimMissing": pending("claims", v1alpha1.VerdictNeverFits, v1alpha1.PendingExplanation{Attempts: 1200, Alike: 1,
			PodRefusals: []v1alpha1.Refusal{{Plugin: "VolumeBinding", Reason: v1alpha1.ReasonClaimNotFound,
				Messages: []string{`persistentvolumeclaim "data" not found.`}}},
			Suggestions: []v1alpha1.Suggestion{{Type: v1alpha1.SuggestionCreateClaim,
				Description: "Create the PersistentVolumeClaim data."}}}),
		"newVerdict": pending("newer", "Postponed", v1alpha1.PendingExplanation{Place: "Elsewhere"}),
	} {
		examples[name] = example[*v1alpha1.PodExplanation, shownExplanation]{e, shownOf(t, e)}
	}
	return examples
}

func shownOf(t *testing.T, e *v1alpha1.PodExplanation) shownExplanation {
	t.Helper()
	p := (&handler{}).loadExplanation(t.Context(), explained{cluster(), e}, e.Metadata.Namespace, e.Metadata.Name, "")
	if p.Problem != nil {
		t.Fatal(p.Problem)
	}
	v := p.Data
	row := whyOf(e)
	shown := shownExplanation{
		Headline: v.Headline, Class: v.Class, Shortage: v.Shortage, Group: v.Group, Waits: v.Waits,
		Row: shownRow{row.Headline, row.Why, row.Nodes, row.Help, row.Tried},
	}
	for _, f := range v.Facts {
		shown.Facts = append(shown.Facts, shownFact{f.Name, f.Text})
	}
	for i := range v.Tried {
		shown.Tried = append(shown.Tried, v.Tried[i].Description)
	}
	for i := range v.Untried {
		shown.Untried = append(shown.Untried, v.Untried[i].Description)
	}
	if p := e.Pending; p != nil {
		for i := range p.PodRefusals {
			shown.Refusals = append(shown.Refusals, words.Refusal(&p.PodRefusals[i]))
		}
		for i := range p.Groups {
			shown.WhyNot = append(shown.WhyNot, words.WhyNot(&p.Groups[i]))
		}
	}
	if s := v.Scores; s != nil {
		shown.Scores = &shownTable{Plugins: s.Plugins, Equal: s.Equal, Hidden: s.Hidden}
		for _, r := range s.Rows {
			shown.Scores.Rows = append(shown.Scores.Rows, shownSum{r.Node, r.Chosen, r.Total, r.Scores})
		}
	}
	return shown
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
			list.Items[3].Requests = corev1.ResourceList{"cpu": resource.MustParse("1500m"), "pods": resource.MustParse("1"),
				"memory": resource.MustParse("0")}
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
	healthy := *profiles[1].DeepCopy()
	healthy.Name, healthy.Status.Rollout.Phase = "healthy", v1alpha1.RolloutHealthy
	idle := *profiles[2].DeepCopy()
	idle.Name, idle.Status.Shadow.Decisions, idle.Status.Shadow.Agreed = "idle", 0, 0
	first := *profiles[2].DeepCopy()
	first.Name, first.Status.Shadow = "first", nil
	first.Spec.Shadow = &v1alpha1.ShadowSpec{ProfileRef: v1alpha1.ProfileReference{Name: "default"}}
	profiles = append(profiles, untouched, stale, degraded, healthy, idle, first)
	e := example[*v1alpha1.SchedulerProfileList, []shownProfile]{Answer: &v1alpha1.SchedulerProfileList{Items: profiles}}
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
	for _, message := range []string{"", "0/400 nodes are available: 400 Insufficient memory.",
		"pod group train:  16 pods\nare needed. no new claims to deallocate, preemption: 0/4 nodes are available: 4 x."} {
		reasons = append(reasons, example[string, string]{message, words.ShortReason(message)})
	}
	var partials []example[v1alpha1.NodeGroup, string]
	for _, g := range []v1alpha1.NodeGroup{{Partial: true}, {Refusals: []v1alpha1.Refusal{{Plugin: "A"}, {Plugin: "A"}}}} {
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

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

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
	unknown := pending("failing", v1alpha1.VerdictUnknown,
		v1alpha1.PendingExplanation{Attempts: 1, Place: "ErrorBackoff"})
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
		"claimMissing": pending("claims", v1alpha1.VerdictNeverFits, v1alpha1.PendingExplanation{
			Attempts: 1200, Alike: 1,
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
		Row: shownRow(row),
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
			shown.Scores.Rows = append(shown.Scores.Rows, shownSum(r))
		}
	}
	return shown
}

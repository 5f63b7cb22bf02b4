// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/words"
)

const (
	// listedKinds is how many kinds the overview lists, and mostKinds how many if asked for all.
	listedKinds, mostKinds = 50, 500
	// explainedKinds is how many of them are explained in their rows.
	explainedKinds = 10
	// helpedKinds is how many kinds are explained to find what helps.
	helpedKinds = 3
	// explainedFor is how old these explanations may be: with thousands of nodes, one takes as long
	// as thousands of decisions. Rows ask every minute, so however many people look, a kind is
	// explained once in that time.
	explainedFor = 55 * time.Second
)

// verdictView is the first line of the overview.
type verdictView struct {
	Namespace string
	Pods      int32
	Text      string
	Oldest    string
}

// kindsView is the table of kinds.
type kindsView struct {
	Namespace string
	All       bool
	Items     []kindRow
	Pods      int32
	Left      int32 // kinds that are not listed
}

// kindRow is one kind.
type kindRow struct {
	v1alpha1.PendingKind
	Name      string
	Place     string
	Explained bool
	Delay     int // in ms, before it is explained
}

// whyView is why the pods of a kind wait, in a row of the table.
type whyView struct {
	Headline string
	Why      string
	Nodes    string
	Help     string
	Tried    bool
}

// helpView is what lets pods of one of the largest kinds run.
type helpView struct {
	Kind kindRow
	Help string
}

func (h *handler) verdictPart(r *http.Request, s Source) answer {
	return answer{part: "verdict", data: loadVerdict(r.Context(), s, namespaceOf(r))}
}

func (h *handler) kindsPart(r *http.Request, s Source) answer {
	return answer{part: "kinds", data: loadKinds(r.Context(), s, namespaceOf(r), r.URL.Query().Get("all") != "")}
}

func namespaceOf(r *http.Request) string { return strings.TrimSpace(r.URL.Query().Get("namespace")) }

// loadVerdict returns how many pods wait, and how long.
func loadVerdict(ctx context.Context, s Source, namespace string) part[verdictView] {
	list, err := s.PendingKinds(ctx, namespace, mostKinds)
	if err != nil {
		return partOf(verdictView{Namespace: namespace}, err)
	}
	v := verdictView{Namespace: namespace, Pods: list.Pods}
	where := ""
	if namespace != "" {
		where = " in the namespace " + namespace
	}
	if list.Pods == 0 {
		v.Text = "No pod waits" + where + "."
		return part[verdictView]{Data: v}
	}
	v.Text = words.Many(list.Pods, "pod") + verb(list.Pods, " waits", " wait") + where + " in " +
		words.Many(list.Kinds, "kind") + "."
	var oldest metav1.Time
	for i := range list.Items {
		if since := list.Items[i].Since; !since.IsZero() && (oldest.IsZero() || since.Before(&oldest)) {
			oldest = since
		}
	}
	switch {
	case oldest.IsZero():
	case list.Pods == 1:
		v.Oldest = "It has waited " + age(oldest.Time) + "."
	case int(list.Kinds) > len(list.Items):
		v.Oldest = words.Grouped.Sprintf("The oldest of the %d largest kinds has waited ", len(list.Items)) +
			age(oldest.Time) + "."
	default:
		v.Oldest = "The oldest has waited " + age(oldest.Time) + "."
	}
	return part[verdictView]{Data: v}
}

// loadKinds returns the table of kinds.
func loadKinds(ctx context.Context, s Source, namespace string, all bool) part[kindsView] {
	limit := listedKinds
	if all {
		limit = mostKinds
	}
	v := kindsView{Namespace: namespace, All: all}
	list, err := s.PendingKinds(ctx, namespace, limit)
	if err != nil {
		return partOf(v, err)
	}
	v.Pods = list.Pods
	v.Left = max(list.Kinds-int32(len(list.Items)), 0)
	for i := range list.Items {
		row := rowOf(&list.Items[i])
		row.Explained, row.Delay = i < explainedKinds, 150*i
		v.Items = append(v.Items, row)
	}
	return part[kindsView]{Data: v}
}

func rowOf(k *v1alpha1.PendingKind) kindRow {
	return kindRow{PendingKind: *k, Name: kindName(k), Place: placeWords(k)}
}

// kindName names what the pods of a kind belong to.
func kindName(k *v1alpha1.PendingKind) string {
	if k.PodGroup != "" && k.Owner == "" {
		return "podgroup/" + k.PodGroup
	}
	return cmp.Or(k.Owner, "pod/"+k.Pod)
}

// placeWords tells where the pods of a kind are in the queue.
func placeWords(k *v1alpha1.PendingKind) string {
	deciding := k.Pods - k.Active - k.Backoff - k.Unschedulable - k.Gated
	var texts []string
	for _, place := range []struct {
		pods int32
		name string
	}{
		{k.Unschedulable, "unschedulable"}, {k.Backoff, "back-off"}, {k.Active, "active"}, {k.Gated, "gated"},
		{deciding, "being decided"},
	} {
		switch {
		case place.pods == k.Pods:
			return place.name
		case place.pods > 0:
			texts = append(texts, words.Grouped.Sprintf("%d ", place.pods)+place.name)
		}
	}
	return strings.Join(texts, ", ")
}

// whyPart explains one pod of a kind in a few words.
func (h *handler) whyPart(r *http.Request, s Source) answer {
	q := r.URL.Query()
	e, err := s.Explain(r.Context(), types.NamespacedName{Namespace: q.Get("namespace"), Name: q.Get("pod")}, "",
		explainedFor)
	if err != nil {
		return answer{part: "why", data: partOf(whyView{}, err)}
	}
	return answer{part: "why", data: part[whyView]{Data: whyOf(e)}}
}

func whyOf(e *v1alpha1.PodExplanation) whyView {
	v := whyView{Headline: headline(e)}
	if e.Pending == nil {
		return v
	}
	switch p := e.Pending; {
	case len(p.PodRefusals) > 0:
		v.Why = words.Refusal(&p.PodRefusals[0])
	case e.Verdict == v1alpha1.VerdictGroupDoesNotFit && p.PodGroup != nil:
		v.Why = words.PodGroup(p.PodGroup, false)
	case len(p.Groups) > 0:
		v.Why, v.Nodes = words.WhyNot(&p.Groups[0]), words.Many(p.Groups[0].Nodes, "node")
	default:
		v.Why = e.Message
	}
	if suggestion := firstSuggestion(e.Pending); suggestion != nil {
		v.Help, v.Tried = words.Suggestion(suggestion, e.Pending.Alike), suggestion.Verified
	}
	return v
}

// firstSuggestion returns the first suggestion that livesched has tried, or else the first one.
func firstSuggestion(p *v1alpha1.PendingExplanation) *v1alpha1.Suggestion {
	for i := range p.Suggestions {
		if p.Suggestions[i].Verified {
			return &p.Suggestions[i]
		}
	}
	if len(p.Suggestions) > 0 {
		return &p.Suggestions[0]
	}
	return nil
}

// helpPart looks for a change that lets pods of one of the largest kinds run, and that was tried.
// Without one, it says nothing: the rows below have the details.
func (h *handler) helpPart(r *http.Request, s Source) answer {
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	list, err := s.PendingKinds(ctx, namespaceOf(r), helpedKinds)
	if err != nil {
		return answer{part: "help"}
	}
	for i := range list.Items {
		k := &list.Items[i]
		e, err := s.Explain(ctx, types.NamespacedName{Namespace: k.Namespace, Name: k.Pod}, "", explainedFor)
		if err != nil || e.Pending == nil {
			continue
		}
		if suggestion := firstSuggestion(e.Pending); suggestion != nil && suggestion.Verified {
			help := words.Suggestion(suggestion, e.Pending.Alike)
			return answer{part: "help", data: &helpView{Kind: rowOf(k), Help: help}}
		}
	}
	return answer{part: "help"}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/words"
)

// podView is the page of a pod.
type podView struct {
	Namespace   string
	Name        string
	Node        string // that is compared
	Explanation part[explanationView]
	Decisions   part[decisionsView]
}

// explanationView is why a pod waits, or why it is on its node.
type explanationView struct {
	Namespace string
	Name      string
	Node      string // that is compared
	Headline  string
	Class     string // the style of the headline
	*v1alpha1.PodExplanation
	Facts    []fact
	Shortage []string
	Tried    []v1alpha1.Suggestion
	Untried  []v1alpha1.Suggestion
	Group    string
	Next     string
	Waits    []string
	Scores   *scoresView // of a bound pod
	Compared *comparedView
}

// fact is a line of the summary.
type fact struct{ Name, Text, Link string }

// podPage explains a pod.
func (h *handler) podPage(r *http.Request, s Source) answer {
	v := podView{Namespace: r.PathValue("namespace"), Name: r.PathValue("name"), Node: nodeOfQuery(r)}
	a := answer{page: "pod", title: "Pod " + v.Namespace + "/" + v.Name}
	v.Explanation = h.loadExplanation(r.Context(), s, v.Namespace, v.Name, v.Node)
	if p := v.Explanation.Problem; p != nil {
		a.status = p.Status
		if p.Status == http.StatusNotFound {
			return failed(p)
		}
	}
	v.Decisions = loadDecisionsOf(r.Context(), s, byPod, v.Namespace+"/"+v.Name)
	a.data = v
	return a
}

// findPod leads to the page of the pod that the user has named.
func (h *handler) findPod(r *http.Request, _ Source) answer {
	namespace, name, found := strings.Cut(strings.TrimSpace(r.URL.Query().Get("pod")), "/")
	switch {
	case !found && namespace != "":
		return answer{location: h.podLink("default", namespace)}
	case namespace == "" || name == "" || strings.Contains(name, "/"):
		return failed(&problem{Status: http.StatusBadRequest, Title: "This is no name of a pod.",
			Text: "Write the namespace and the name of the pod, such as default/web-0."})
	}
	return answer{location: h.podLink(namespace, name)}
}

// podPart answers with the explanation alone. If the pod is gone, it says so.
func (h *handler) podPart(r *http.Request, s Source) answer {
	v := h.loadExplanation(r.Context(), s, r.PathValue("namespace"), r.PathValue("name"), nodeOfQuery(r))
	return answer{part: "explanation", data: v}
}

func nodeOfQuery(r *http.Request) string { return strings.TrimSpace(r.URL.Query().Get("node")) }

func (h *handler) loadExplanation(ctx context.Context, s Source, namespace, name, node string) part[explanationView] {
	v := explanationView{Namespace: namespace, Name: name, Node: node}
	e, err := s.Explain(ctx, types.NamespacedName{Namespace: namespace, Name: name}, node, 0)
	if err != nil {
		return partOf(v, err)
	}
	v.PodExplanation, v.Headline, v.Class = e, headline(e), "warn"
	switch {
	case e.Bound != nil:
		v.bound(h, e)
	case e.Pending != nil:
		v.pending(h, e, e.Pending)
	}
	if e.Profile != "" {
		profile := e.Profile
		if e.Revision != "" {
			profile += ", revision " + e.Revision
		}
		v.add("Profile", profile, h.link("/decisions", "profile", e.Profile))
	} else {
		v.add("Scheduler name", e.SchedulerName, "")
	}
	if e.Node != nil {
		v.Compared = comparedOf(e.Node, e.Bound)
	}
	return partOf(v, nil)
}

// add adds a fact, unless it is empty.
func (v *explanationView) add(name, text, link string) {
	if text != "" {
		v.Facts = append(v.Facts, fact{name, text, link})
	}
}

// pending fills in what keeps a pod pending.
func (v *explanationView) pending(h *handler, e *v1alpha1.PodExplanation, p *v1alpha1.PendingExplanation) {
	if e.Verdict == v1alpha1.VerdictNeverFits || e.Verdict == v1alpha1.VerdictUnknown ||
		e.Verdict == v1alpha1.VerdictNoProfile {
		v.Class = "bad"
	}
	if e.Verdict == v1alpha1.VerdictBinding {
		v.Class = "good"
	}
	if !p.Since.IsZero() {
		v.add("Pending for", age(p.Since.Time), "")
	}
	v.add("In the queue", place(p.Place), "")
	if p.Attempts > 0 {
		decisions := h.link("/decisions", "namespace", v.Namespace, "pod", v.Name)
		v.add("Attempts", words.Grouped.Sprintf("%d", p.Attempts), decisions)
	}
	v.Next = nextTry(e.Verdict, p)
	v.add("Next try", v.Next, "")
	if e.Feasible > 0 {
		v.add("Fits", words.Grouped.Sprintf("%d of %d nodes", e.Feasible, e.Nodes), "")
	}
	if p.NominatedNode != "" {
		v.add("Its node will be", p.NominatedNode, h.nodeLink(p.NominatedNode))
	}
	if p.Alike > 0 {
		v.add("Alike", words.Many(p.Alike, "other pod")+verb(p.Alike, " waits", " wait")+" for the same reason",
			h.link("/", "namespace", v.Namespace)+"#kinds")
	}
	v.add("Scheduling gates", strings.Join(p.Gates, ", "), "")
	if p.GatingPlugin != "" {
		v.add("Held back by", p.GatingPlugin+": "+p.GatingMessage, "")
	}
	v.add("Condition PodScheduled", p.Reason, "")
	if p.PodGroup != nil {
		v.Group = words.PodGroup(p.PodGroup, false)
	}
	v.Shortage = shortages(p)
	for i := range p.Suggestions {
		if p.Suggestions[i].Verified {
			s := p.Suggestions[i]
			s.Description = words.Suggestion(&s, p.Alike)
			v.Tried = append(v.Tried, s)
		} else {
			v.Untried = append(v.Untried, p.Suggestions[i])
		}
	}
	for _, event := range p.WaitsFor {
		text := event.Event
		if len(event.Plugins) > 0 {
			text += " (" + strings.Join(event.Plugins, ", ") + ")"
		}
		v.Waits = append(v.Waits, text)
	}
}

// places are where a pod is in the queue.
var places = map[string]string{
	"Active":        "active: it is tried as soon as those before it have been",
	"Backoff":       "back-off: it waits a while after a failed attempt",
	"ErrorBackoff":  "back-off: it waits a while after an error",
	"Unschedulable": "unschedulable: it waits for an event that may help",
	"Gated":         "gated: it is not admitted to the queue yet",
	"InFlight":      "being decided",
}

func place(name string) string { return cmp.Or(places[name], name) }

// nextTry tells when the pod is tried again at the latest. It is "" if it waits for an event only.
func nextTry(verdict v1alpha1.Verdict, p *v1alpha1.PendingExplanation) string {
	if p.NextTry.IsZero() || verdict == v1alpha1.VerdictGated || verdict == v1alpha1.VerdictBinding {
		return ""
	}
	if in := time.Until(p.NextTry.Time); in > 0 {
		return "in " + span(in) + " at the latest"
	}
	return "now"
}

// shortages lists what is missing on the closest nodes.
func shortages(p *v1alpha1.PendingExplanation) (texts []string) {
	for i := range p.Groups {
		g := &p.Groups[i]
		for j := range g.Refusals {
			for k := range g.Refusals[j].ShortBy {
				text := words.Many(g.Nodes, "node") + " of " + strings.Join(g.Pools, ", ") + ": each " +
					words.Shortage(&g.Refusals[j].ShortBy[k])
				if len(texts) < 5 && !slices.Contains(texts, text) {
					texts = append(texts, text)
				}
			}
		}
	}
	return texts
}

// bound fills in why a pod is on its node.
func (v *explanationView) bound(h *handler, e *v1alpha1.PodExplanation) {
	b := e.Bound
	v.Class = "good"
	if b.Node == "" {
		v.Headline = "It is on a node whose name is hidden: you may not list nodes"
	} else {
		v.Headline = "It is on the node " + b.Node
		v.add("Node", b.Node, h.nodeLink(b.Node))
	}
	for i := range b.Top {
		if b.Top[i].Node == b.Node && b.Node != "" {
			v.add("Total", words.Grouped.Sprintf("%d", b.Top[i].Total), "")
		}
	}
	switch b.Basis {
	case v1alpha1.BasisRecorded:
		v.add("Decided", age(b.Decided.Time)+" ago, as it was recorded", "")
	case v1alpha1.BasisRecomputed:
		v.add("Decided", "not recorded: decided again as if it were pending, in the present state of the cluster", "")
	}
	if b.Changes > 0 {
		v.add("Since then", words.Many(b.Changes, "change")+" of nodes and pods", "")
	}
	if e.Feasible > 0 {
		fitted := words.Grouped.Sprintf("%d of %d nodes", e.Feasible, e.Nodes)
		if b.Evaluated > 0 {
			fitted = words.Grouped.Sprintf("%d of the %d nodes that were evaluated", e.Feasible, b.Evaluated)
		}
		v.add("It fitted", fitted, "")
	}
	if b.Tied > 1 {
		v.add("With the highest total", words.Many(b.Tied, "node"), "")
	}
	v.Scores = scoresOf(b.Top, b.Node)
}

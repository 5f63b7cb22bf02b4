// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/apiserving"
	"github.com/livesched/livesched/internal/words"
)

const (
	// listedDecisions is how many decisions are listed, and how many new ones a poll adds at most.
	listedDecisions = 100
	// decisionsOfOne is how many decisions about one pod or node are listed.
	decisionsOfOne = 20
)

// decisionFilters are the parameters by which decisions are selected.
var decisionFilters = []string{
	"namespace", apiserving.ProfileParameter, apiserving.ResultParameter, apiserving.PodParameter,
}

// decisionsView is a table of decisions.
type decisionsView struct {
	Filter map[string]string
	Rows   []decisionRow
	Latest int64
	Hidden bool
	// Short is what all rows are about, byPod and so on: columns that are the same are left out.
	Short string
	// Poll is the address of the decisions after the latest.
	Poll string
	// Gap means that there were more new decisions than the rows.
	Gap bool
	// Link is the path of the decisions about that.
	Link string
}

// decisionRow is one decision.
type decisionRow struct {
	v1alpha1.Decision
	Name         string // of the pod or the group
	NodeOrHidden string
	ProfileLink  string
}

// decisionsPage lists the latest decisions.
func (h *handler) decisionsPage(r *http.Request, s Source) answer {
	v, err := h.loadDecisions(r, s, 0)
	a := answer{page: "decisions", title: "Decisions", data: partOf(v, err)}
	if err != nil {
		a.status = problemOf(err).Status
	}
	return a
}

// newDecisions answers the poll of that page with the decisions that are new. A poll after one that
// failed is always answered, so that the problem goes away.
func (h *handler) newDecisions(r *http.Request, s Source) answer {
	after, _ := strconv.ParseInt(r.URL.Query().Get(apiserving.AfterParameter), 10, 64) // anything else lists all
	v, err := h.loadDecisions(r, s, max(after, 0))
	switch {
	case err != nil:
		v.Latest = after
		v.Poll = h.pollLink(v.Filter, after) + "&failed=1"
		return answer{part: "new-decisions", data: partOf(v, err)}
	case v.Latest < after: // another replica leads, and counts from 1
		v.Gap = true
	}
	if v.Latest == after && r.URL.Query().Get("failed") == "" {
		return answer{status: http.StatusNoContent}
	}
	return answer{part: "new-decisions", data: partOf(v, nil)}
}

// loadDecisions returns the decisions that the request selects, after a number.
func (h *handler) loadDecisions(r *http.Request, s Source, after int64) (decisionsView, error) {
	v := decisionsView{Filter: map[string]string{}}
	query := url.Values{apiserving.LimitParameter: {strconv.Itoa(listedDecisions)}}
	for _, name := range decisionFilters {
		if value := strings.TrimSpace(r.URL.Query().Get(name)); value != "" {
			v.Filter[name] = value
			query.Set(name, value)
		}
	}
	if after > 0 {
		query.Set(apiserving.AfterParameter, strconv.FormatInt(after, 10))
	}
	list, err := s.Decisions(r.Context(), query)
	if err == nil && list.Latest < after { // another replica leads
		query.Del(apiserving.AfterParameter)
		list, err = s.Decisions(r.Context(), query)
	}
	if err != nil {
		return v, err
	}
	v.take(list)
	v.Gap = after > 0 && len(list.Items) >= listedDecisions
	v.Poll = h.pollLink(v.Filter, v.Latest)
	return v, nil
}

// pollLink returns the address of the decisions after a number.
func (h *handler) pollLink(filter map[string]string, after int64) string {
	query := []any{apiserving.AfterParameter, after}
	for _, name := range decisionFilters {
		query = append(query, name, filter[name])
	}
	return h.link("/parts/decisions", query...)
}

// take takes the decisions of a list.
func (v *decisionsView) take(list *v1alpha1.DecisionList) {
	v.Latest, v.Hidden = list.Latest, list.NodesHidden
	for i := range list.Items {
		d := &list.Items[i]
		v.Latest = max(v.Latest, d.Number)
		row := decisionRow{Decision: *d, Name: cmp.Or(d.Pod, string(d.PodUID)), NodeOrHidden: d.Node}
		if d.Pod == "" && d.PodGroup != "" {
			row.Name = "podgroup/" + d.PodGroup
		}
		if d.Node == "" && list.NodesHidden && d.Feasible > 0 {
			row.NodeOrHidden = words.HiddenNode
		}
		v.Rows = append(v.Rows, row)
	}
}

// Fits tells how many nodes the pod fitted: at least, if not all were evaluated. Of a group as a
// whole, that is unknown.
func (d *decisionRow) Fits() string {
	if d.Pod == "" && d.PodGroup != "" {
		return "–"
	}
	fits := words.Grouped.Sprintf("%d of %d", d.Feasible, d.Nodes)
	if d.Evaluated > 0 {
		return "at least " + fits
	}
	return fits
}

// What decisions are about: a pod, a pod group with its pods, each as "namespace/name", or a node.
const (
	byPod   = "pod"
	byGroup = "group"
	byNode  = "node"
)

// loadDecisionsOf returns the latest decisions about one of these.
func loadDecisionsOf(ctx context.Context, s Source, by, of string) part[decisionsView] {
	v := decisionsView{Short: by, Link: "/parts/decisions-of/" + by}
	for name := range strings.SplitSeq(of, "/") {
		v.Link += "/" + url.PathEscape(name)
	}
	query := url.Values{apiserving.LimitParameter: {strconv.Itoa(decisionsOfOne)}}
	namespace, name, _ := strings.Cut(of, "/")
	switch by {
	case byPod:
		query.Set("namespace", namespace)
		query.Set(apiserving.PodParameter, name)
	case byGroup:
		query.Set("namespace", namespace)
		query.Set(apiserving.PodGroupParameter, name)
	default:
		query.Set(apiserving.NodeParameter, of)
	}
	list, err := s.Decisions(ctx, query)
	if err != nil {
		return partOf(v, err)
	}
	v.take(list)
	return partOf(v, nil)
}

// decisionsOf answers with the latest decisions about a pod, a group or a node.
func (h *handler) decisionsOf(r *http.Request, s Source) answer {
	by, of := r.PathValue("by"), r.PathValue("of")
	if by != byPod && by != byGroup && by != byNode {
		return notFound("There are decisions of a pod, of a group or of a node.")
	}
	return answer{part: "decisions-of", data: loadDecisionsOf(r.Context(), s, by, of)}
}

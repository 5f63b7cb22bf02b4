// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserving

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/suggest"
)

// Decisions is the resource of recorded decisions. They are listed, for a namespace or for all.
const Decisions = "decisions"

// The parameters of a list of decisions.
const (
	// LimitParameter is the largest number of decisions.
	LimitParameter = "limit"
	// defaultListed is its default, and maxListed the most that is allowed.
	defaultListed, maxListed = 100, 10000

	// PodParameter and PodGroupParameter are the name of a pod, and of a group of pods. For other
	// parameters of a list, see DecisionQuery.
	PodParameter      = "pod"
	PodGroupParameter = "podGroup"
	ResultParameter   = "result"
	ProfileParameter  = "profile"
	AfterParameter    = "after"
	CollapseParameter = "collapse"
)

// DecisionQuery selects the decisions to list. A field that is not set selects all.
type DecisionQuery struct {
	// Namespace is the namespace of the pods.
	Namespace string
	// Pod is the name of a pod. PodGroup is the name of a group: it selects the pods of the group,
	// and the group as a whole.
	Pod, PodGroup string
	Result        v1alpha1.DecisionResult
	Profile       string
	// Node is the chosen node. It is for those alone who may list nodes.
	Node string
	// After selects decisions with higher numbers.
	After int64
	// Limit is the largest number of decisions, at least 1.
	Limit int
	// Collapse leaves out decisions that repeat a later one: see v1alpha1.Decision.Repeated.
	Collapse bool
}

// decisions answers with the latest decisions. It takes the place of an explanation.
func (h *Handler) decisions(r *http.Request, answers Answers, namespace string) (*v1alpha1.DecisionList, error) {
	query, err := decisionQuery(r.URL.Query())
	if err != nil {
		return nil, err
	}
	query.Namespace = namespace
	ctx, leave, seesNodes, err := h.beginExplaining(r.Context(), query.Node)
	if err != nil {
		return nil, err
	}
	defer leave()
	items, latest, err := answers.Decisions(ctx, query)
	if err != nil {
		return nil, err
	}
	if !seesNodes {
		for i := range items {
			hideNode(&items[i])
		}
	}
	return &v1alpha1.DecisionList{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "DecisionList"},
		Items:    items, Latest: latest, NodesHidden: !seesNodes,
	}, nil
}

// hideNode removes the name of the node from a decision, for those who may not list nodes.
func hideNode(d *v1alpha1.Decision) {
	var hidden names
	hidden.hide(&d.Node)
	hidden.erase(&d.Message)
	d.Domain = "" // its label may be the label of the host name
}

// decisionQuery reads the parameters of a list. The error is a BadRequest.
func decisionQuery(parameters url.Values) (*DecisionQuery, error) {
	q := &DecisionQuery{
		Pod: parameters.Get(PodParameter), PodGroup: parameters.Get(PodGroupParameter),
		Result:  v1alpha1.DecisionResult(parameters.Get(ResultParameter)),
		Profile: parameters.Get(ProfileParameter), Node: parameters.Get(NodeParameter),
	}
	if q.Result != "" && !slices.Contains(v1alpha1.DecisionResultNames, string(q.Result)) {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the parameter %s must be %s, not %q", ResultParameter,
			suggest.OneOf(v1alpha1.DecisionResultNames), q.Result))
	}
	var err error
	if q.Limit, err = limitOf(parameters); err != nil {
		return nil, err
	}
	if text := parameters.Get(AfterParameter); text != "" {
		if q.After, err = strconv.ParseInt(text, 10, 64); err != nil || q.After < 0 {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("the parameter %s must be a number from 0, not %q",
				AfterParameter, text))
		}
	}
	if text := parameters.Get(CollapseParameter); text != "" {
		if q.Collapse, err = strconv.ParseBool(text); err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("the parameter %s must be true or false, not %q",
				CollapseParameter, text))
		}
	}
	return q, nil
}

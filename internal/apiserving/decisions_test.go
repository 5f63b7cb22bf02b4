// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserving

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
)

// lister lists decisions that say what was asked for.
type lister struct{ err error }

func (l lister) Decisions(_ context.Context, q *DecisionQuery) ([]v1alpha1.Decision, int64, error) {
	return []v1alpha1.Decision{{
		Namespace: q.Namespace, Pod: fmt.Sprintf("%+v", *q), Node: "n1", Domain: "rack=r1", Feasible: 3,
		Message: "n1 broke n12",
	}}, 42, l.err
}

func TestDecisionsAreListed(t *testing.T) {
	const base = "/apis/livesched.io/v1alpha1/"
	for name, test := range map[string]struct {
		path  string
		lists bool
		want  DecisionQuery
	}{
		"of a namespace":         {base + "namespaces/ml/decisions", true, DecisionQuery{Namespace: "ml", Limit: 100}},
		"of all namespaces":      {base + "decisions?limit=7", true, DecisionQuery{Limit: 7}},
		"without names of nodes": {base + "decisions?limit=10000", false, DecisionQuery{Limit: 10000}},
		"about a pod": {base + "namespaces/ml/decisions?pod=a&collapse=true&result=BindFailed", false,
			DecisionQuery{Namespace: "ml", Pod: "a", Limit: 100, Collapse: true, Result: v1alpha1.DecisionBindFailed}},
		"about a group": {base + "namespaces/ml/decisions?podGroup=g&profile=p&node=n&after=12&collapse=false", true,
			DecisionQuery{Namespace: "ml", PodGroup: "g", Profile: "p", Node: "n", After: 12, Limit: 100}},
	} {
		h := handler(fakes{lister: lister{}}, mayList{nodes: test.lists})
		answer := send(h, httptest.NewRequest(http.MethodGet, test.path, http.NoBody))
		var got v1alpha1.DecisionList
		if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil || answer.Code != http.StatusOK {
			t.Fatalf("%s: %d, %v: %s", name, answer.Code, err, answer.Body)
		}
		item := v1alpha1.Decision{
			Namespace: test.want.Namespace, Pod: fmt.Sprintf("%+v", test.want), Node: "n1", Domain: "rack=r1",
			Feasible: 3, Message: "n1 broke n12",
		}
		if !test.lists {
			item.Node, item.Domain, item.Message = "", "", "(a node) broke n12"
		}
		want := v1alpha1.DecisionList{
			TypeMeta: metav1.TypeMeta{APIVersion: "livesched.io/v1alpha1", Kind: "DecisionList"},
			Items:    []v1alpha1.Decision{item},
			Latest:   42, NodesHidden: !test.lists,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestOnlyThoseWhoListNodesAskForOne(t *testing.T) {
	h := handler(fakes{lister: lister{}}, mayList{})
	got := statusIn(t, send(h,
		httptest.NewRequest(http.MethodGet, "/apis/livesched.io/v1alpha1/namespaces/ml/decisions?node=n1",
			http.NoBody)))
	if got.Reason != metav1.StatusReasonForbidden {
		t.Errorf("%+v", got)
	}
}

func TestListsOfDecisionsThatAreRefused(t *testing.T) {
	const base = "/apis/livesched.io/v1alpha1/"
	h := handler(fakes{lister: lister{}}, mayList{nodes: true})
	for path, want := range map[string]metav1.StatusReason{
		base + "decisions?limit=0":            metav1.StatusReasonBadRequest,
		base + "decisions?limit=10001":        metav1.StatusReasonBadRequest,
		base + "decisions?limit=all":          metav1.StatusReasonBadRequest,
		base + "decisions?result=bound":       metav1.StatusReasonBadRequest,
		base + "decisions?after=-1":           metav1.StatusReasonBadRequest,
		base + "decisions?collapse=maybe":     metav1.StatusReasonBadRequest,
		base + "decisions?watch=1":            metav1.StatusReasonMethodNotAllowed,
		base + "namespaces/ml/decisions/a":    metav1.StatusReasonMethodNotAllowed,
		base + "namespaces/ml/decisions/a/b":  metav1.StatusReasonNotFound,
		base + "namespaces/ml/decisionlogs/a": metav1.StatusReasonNotFound,
	} {
		if got := statusIn(t, send(h, httptest.NewRequest(http.MethodGet, path, http.NoBody))); got.Reason != want {
			t.Errorf("%s: %+v", path, got)
		}
	}
	for range maxExplanations {
		h.explaining <- struct{}{}
	}
	if got := statusIn(t, send(h, httptest.NewRequest(http.MethodGet, base+"decisions", http.NoBody))); got.Reason !=
		metav1.StatusReasonTooManyRequests {
		t.Errorf("a list beside %d explanations: %+v", maxExplanations, got)
	}
}

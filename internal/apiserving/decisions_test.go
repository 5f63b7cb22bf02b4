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

// lister is a DecisionLister whose decisions say what was asked for.
type lister struct{ err error }

func (l lister) Decisions(_ context.Context, namespace string, limit int) ([]v1alpha1.Decision, error) {
	return []v1alpha1.Decision{{Namespace: namespace, Pod: fmt.Sprint("at most ", limit), Node: "n1", Domain: "rack=r1", Feasible: 3}}, l.err
}

func TestDecisionsAreListed(t *testing.T) {
	const base = "/apis/livesched.io/v1alpha1/"
	for name, test := range map[string]struct {
		path  string
		lists bool
		want  v1alpha1.Decision
	}{
		"of a namespace": {base + "namespaces/ml/decisions", true,
			v1alpha1.Decision{Namespace: "ml", Pod: "at most 100", Node: "n1", Domain: "rack=r1", Feasible: 3}},
		"of all namespaces": {base + "decisions?limit=7", true,
			v1alpha1.Decision{Pod: "at most 7", Node: "n1", Domain: "rack=r1", Feasible: 3}},
		"without names of nodes": {base + "decisions?limit=10000", false, v1alpha1.Decision{Pod: "at most 10000", Feasible: 3}},
	} {
		h := NewHandler(Config{DecisionLister: lister{}, Authorizer: mayList{nodes: test.lists}})
		answer := send(h, httptest.NewRequest(http.MethodGet, test.path, http.NoBody))
		var got v1alpha1.DecisionList
		if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil || answer.Code != http.StatusOK {
			t.Fatalf("%s: %d, %v: %s", name, answer.Code, err, answer.Body)
		}
		want := v1alpha1.DecisionList{
			TypeMeta: metav1.TypeMeta{APIVersion: "livesched.io/v1alpha1", Kind: "DecisionList"}, Items: []v1alpha1.Decision{test.want},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestListsOfDecisionsThatAreRefused(t *testing.T) {
	const base = "/apis/livesched.io/v1alpha1/"
	h := NewHandler(Config{DecisionLister: lister{}, Authorizer: mayList{nodes: true}})
	for path, want := range map[string]metav1.StatusReason{
		base + "decisions?limit=0":            metav1.StatusReasonBadRequest,
		base + "decisions?limit=10001":        metav1.StatusReasonBadRequest,
		base + "decisions?limit=all":          metav1.StatusReasonBadRequest,
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
	if got := statusIn(t, send(h, httptest.NewRequest(http.MethodGet, base+"decisions", http.NoBody))); got.Reason != metav1.StatusReasonTooManyRequests {
		t.Errorf("a list beside %d explanations: %+v", maxExplanations, got)
	}
}

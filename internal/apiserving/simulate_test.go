// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserving

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
)

// simulator simulates by two functions.
type simulator struct {
	simulate func(context.Context, *v1alpha1.Simulation) (*v1alpha1.SimulationStatus, error)
	count    func(context.Context, *v1alpha1.Capacity) (*v1alpha1.CapacityStatus, error)
	hides    *bool // whether the last call was to hide the names of nodes
}

func (s simulator) Simulate(ctx context.Context, in *v1alpha1.Simulation,
	hideNodes bool) (*v1alpha1.SimulationStatus, error) {
	if s.hides != nil {
		*s.hides = hideNodes
	}
	return s.simulate(ctx, in)
}

func (s simulator) Count(ctx context.Context, in *v1alpha1.Capacity, hideNodes bool) (*v1alpha1.CapacityStatus, error) {
	if s.hides != nil {
		*s.hides = hideNodes
	}
	return s.count(ctx, in)
}

const (
	clusterWide = "/apis/livesched.io/v1alpha1/simulations"
	simulations = "/apis/livesched.io/v1alpha1/namespaces/ml/simulations"
	capacities  = "/apis/livesched.io/v1alpha1/namespaces/ml/capacities"
)

func post(h *Handler, path, body string) *httptest.ResponseRecorder {
	return send(h, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
}

// object returns a request of a kind, with more fields.
func object(kind, more string) string {
	return fmt.Sprintf(`{"apiVersion": "livesched.io/v1alpha1", "kind": %q%s}`, kind, more)
}

func TestASimulationIsAboutTheNamespaceThatWasAuthorized(t *testing.T) {
	var asked *v1alpha1.Simulation
	h := handler(fakes{simulator: simulator{
		simulate: func(_ context.Context, in *v1alpha1.Simulation) (*v1alpha1.SimulationStatus, error) {
			asked = in
			return &v1alpha1.SimulationStatus{Pods: 7}, nil
		},
	}}, mayList{nodes: true})
	for _, test := range []struct{ path, body, namespace, refused string }{
		{path: simulations, body: object("Simulation", ""), namespace: "ml"},
		{path: simulations, body: object("Simulation", `, "metadata": {"namespace": "ml"}`), namespace: "ml"},
		{path: clusterWide, body: object("Simulation", "")},
		{path: simulations, body: object("Simulation", `, "metadata": {"namespace": "other"}`),
			refused: "differs from the namespace of the request"},
		{path: clusterWide, body: object("Simulation", `, "metadata": {"namespace": "other"}`),
			refused: "differs from the namespace of the request"},
		{path: simulations, body: object("Capacity", ""), refused: "must be of the kind Simulation"},
		{path: simulations, body: object("Simulation", `, "spec": {"nobody": 1}`),
			refused: `unknown field "spec.nobody"`},
		{path: simulations, body: "{", refused: "no JSON"},
	} {
		asked = nil
		answer := post(h, test.path, test.body)
		if test.refused != "" {
			if got := statusIn(t, answer); got.Reason != metav1.StatusReasonBadRequest ||
				!strings.Contains(got.Message, test.refused) || asked != nil {
				t.Errorf("%s: got %+v", test.body, got)
			}
			continue
		}
		var got v1alpha1.Simulation
		if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil || answer.Code != http.StatusOK {
			t.Fatalf("got %d, %v, %s", answer.Code, err, answer.Body)
		}
		if asked.Metadata.Namespace != test.namespace || got.Kind != "Simulation" || got.Status.Pods != 7 {
			t.Errorf("asked for %q, got %+v", asked.Metadata.Namespace, got)
		}
	}
}

func TestRequestsForSimulationsAreLimited(t *testing.T) {
	h := handler(fakes{}, mayList{nodes: true})
	large := strings.Repeat(" ", maxBody) + object("Simulation", "")
	if got := statusIn(t, post(h, simulations, large)); got.Reason != metav1.StatusReasonRequestEntityTooLarge {
		t.Errorf("a large request: got %+v", got)
	}
	for _, test := range []struct {
		method, path string
		want         metav1.StatusReason
	}{
		{http.MethodGet, simulations, metav1.StatusReasonMethodNotAllowed},
		{http.MethodPut, simulations + "/a", metav1.StatusReasonMethodNotAllowed},
		{http.MethodPost, "/apis/livesched.io/v1alpha1/capacities", metav1.StatusReasonNotFound},
		{http.MethodPost, simulations + "/a/status", metav1.StatusReasonNotFound},
	} {
		if got := statusIn(t, send(h, httptest.NewRequest(test.method, test.path, nil))); got.Reason != test.want {
			t.Errorf("%s %s: got %+v", test.method, test.path, got)
		}
	}
}

func TestOneSimulationRunsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running, most := 0, 0
		proceed := make(chan struct{})
		h := handler(fakes{simulator: simulator{
			simulate: func(context.Context, *v1alpha1.Simulation) (*v1alpha1.SimulationStatus, error) {
				running++
				most = max(most, running)
				<-proceed
				running--
				return &v1alpha1.SimulationStatus{}, nil
			},
		}}, mayList{nodes: true})
		answers := make(chan int, 1+maxWaiting)
		for range 1 + maxWaiting {
			go func() { answers <- post(h, simulations, object("Simulation", "")).Code }()
		}
		synctest.Wait()
		refused := post(h, capacities, object("Capacity", `, "spec": {"pod": {}}`))
		if got := statusIn(t, refused); got.Reason != metav1.StatusReasonTooManyRequests ||
			refused.Header().Get("Retry-After") != "1" {
			t.Errorf("got %+v, %v", got, refused.Header())
		}
		close(proceed)
		for range 1 + maxWaiting {
			if code := <-answers; code != http.StatusOK {
				t.Errorf("got %d", code)
			}
		}
		if most != 1 {
			t.Errorf("%d at the same time", most)
		}
	})
}

func TestASimulationHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := handler(fakes{simulator: simulator{
			simulate: func(ctx context.Context, _ *v1alpha1.Simulation) (*v1alpha1.SimulationStatus, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
		}}, mayList{nodes: true})
		answers := make(chan *httptest.ResponseRecorder, 2)
		for range 2 { // one waits for the other
			go func() { answers <- post(h, simulations, object("Simulation", "")) }()
		}
		for range 2 {
			if got := statusIn(t, <-answers); got.Reason != metav1.StatusReasonTimeout {
				t.Errorf("got %+v", got)
			}
		}
	})
}

func TestOnlyWhoMayListNodesLearnsAboutThem(t *testing.T) {
	const secret = "secret-node"
	var hides bool // what the last call was asked to do with the names of nodes
	serving := func(lists bool) *Handler {
		return handler(fakes{simulator: simulator{
			hides: &hides,
			simulate: func(context.Context, *v1alpha1.Simulation) (*v1alpha1.SimulationStatus, error) {
				return &v1alpha1.SimulationStatus{Pods: 1}, nil
			},
			count: func(_ context.Context, c *v1alpha1.Capacity) (*v1alpha1.CapacityStatus, error) {
				next := &v1alpha1.NextPod{}
				if c.Spec.PodGroup != nil {
					next.PodGroup = &v1alpha1.PodGroupFit{Domain: secret, Tried: []v1alpha1.DomainFit{{Domain: secret}}}
					return &v1alpha1.CapacityStatus{Next: next}, nil
				}
				fill(reflect.ValueOf(&next.Groups).Elem(), secret)
				fill(reflect.ValueOf(&next.Suggestions).Elem(), secret)
				g := &next.Groups[0]
				g.Pools, g.Refusals[0].Plugin, g.Refusals[0].Reason, g.Refusals[0].ShortBy[0].Resource = []string{"p"},
					"p", "r", "cpu"
				suggestion := &next.Suggestions[0]
				suggestion.Type, suggestion.Pool, suggestion.Pods, next.Message = v1alpha1.SuggestionFree, "p", nil,
					"not on "+secret+"."
				return &v1alpha1.CapacityStatus{Next: next}, nil
			},
		}}, mayList{nodes: lists})
	}
	for _, request := range []struct{ path, body string }{
		{capacities, object("Capacity", `, "spec": {"pod": {}}`)},
		{capacities, object("Capacity", `, "spec": {"pod": {}, "podGroup": {"minMember": 2}}`)},
	} {
		if shown := post(serving(true), request.path, request.body).Body.String(); !strings.Contains(shown, secret) {
			t.Errorf("%s: who may list nodes does not see them: %s", request.body, shown)
		}
		if hidden := post(serving(false), request.path, request.body).Body.String(); strings.Contains(hidden, secret) ||
			!strings.Contains(hidden, "status") {
			t.Errorf("%s: got %s", request.body, hidden)
		}
	}
	for _, lists := range []bool{true, false} {
		for path, body := range map[string]string{simulations: object("Simulation", ""),
			capacities: object("Capacity", `, "spec": {"pod": {}}`)} {
			hides = lists
			if code := post(serving(lists), path, body).Code; code != http.StatusOK || hides == lists {
				t.Errorf("%s: %d, hides: %t", path, code, hides)
			}
		}
	}
	for _, spec := range []string{`{"nodes": {"remove": ["guess"]}}`, `{"nodeAllocations": true}`} {
		about := object("Simulation", `, "spec": `+spec)
		if got := statusIn(t, post(serving(false), simulations, about)); got.Reason != metav1.StatusReasonForbidden {
			t.Errorf("%s: got %+v", spec, got)
		}
		if code := post(serving(true), simulations, about).Code; code != http.StatusOK {
			t.Errorf("%s: got %d", spec, code)
		}
	}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package secureserving

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// permitter is an API server that knows one user and permits what its function does. Any goroutine
// may ask it; mu guards asked.
type permitter struct {
	permits func(authorizationv1.SubjectAccessReviewSpec) bool

	mu    sync.Mutex
	asked []authorizationv1.SubjectAccessReviewSpec
}

func (p *permitter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	var answer any
	switch r.URL.Path {
	case "/apis/authentication.k8s.io/v1/tokenreviews":
		answer = &authenticationv1.TokenReview{
			TypeMeta: metav1.TypeMeta{APIVersion: authenticationv1.SchemeGroupVersion.String(), Kind: "TokenReview"},
			Status: authenticationv1.TokenReviewStatus{Authenticated: true,
				User: authenticationv1.UserInfo{Username: "somebody"}},
		}
	case "/apis/authorization.k8s.io/v1/subjectaccessreviews":
		review := &authorizationv1.SubjectAccessReview{}
		if err := json.Unmarshal(text, review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		p.mu.Lock()
		p.asked = append(p.asked, review.Spec)
		p.mu.Unlock()
		review.Status.Allowed = p.permits(review.Spec)
		answer = review
	default:
		http.Error(w, "forbidden", http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

func (p *permitter) guard(t *testing.T, alwaysAllow ...string) *Guard {
	t.Helper()
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	client, err := clientset.NewForConfig(&rest.Config{Host: server.URL,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	g, err := NewGuard(client, Options{AlwaysAllow: alwaysAllow})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// send sends a request through a guard to a handler.
func send(g *Guard, method, path string, handler http.HandlerFunc) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.Header.Set("Authorization", "Bearer token")
	answer := httptest.NewRecorder()
	g.Protect(handler).ServeHTTP(answer, r)
	return answer
}

func TestAPathOfAResourceNeedsTheRightToTheResource(t *testing.T) {
	const group, version = "livesched.io", "v1alpha1"
	resource := func(verb, namespace, name string) *authorizationv1.ResourceAttributes {
		return &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Version: version, Namespace: namespace,
			Resource: "podexplanations", Name: name}
	}
	sub := resource("get", "ml", "a")
	sub.Subresource = "b"
	for _, test := range []struct {
		method, path string
		resource     *authorizationv1.ResourceAttributes
		other        *authorizationv1.NonResourceAttributes
	}{
		{"GET", "/apis/livesched.io/v1alpha1/namespaces/ml/podexplanations/train-7",
			resource("get", "ml", "train-7"), nil},
		{"HEAD", "/apis/livesched.io/v1alpha1/namespaces/ml/podexplanations/train-7",
			resource("get", "ml", "train-7"), nil},
		{"POST", "/apis/livesched.io/v1alpha1/namespaces/ml/podexplanations", resource("create", "ml", ""), nil},
		{"DELETE", "/apis/livesched.io/v1alpha1/namespaces/ml/podexplanations/a", resource("delete", "ml", "a"), nil},
		{"GET", "/apis/livesched.io/v1alpha1/namespaces/ml/podexplanations", resource("list", "ml", ""), nil},
		{"GET", "/apis/livesched.io/v1alpha1/namespaces/ml/podexplanations?watch=1", resource("watch", "ml", ""), nil},
		{"GET", "/apis/livesched.io/v1alpha1/podexplanations", resource("list", "", ""), nil},
		{"GET", "/apis/livesched.io/v1alpha1/namespaces/ml/podexplanations/a%2Fb", sub, nil},
		{"GET", "/metrics", nil, &authorizationv1.NonResourceAttributes{Verb: "get", Path: "/metrics"}},
		{"GET", "/apis/livesched.io/v1alpha1", nil,
			&authorizationv1.NonResourceAttributes{Verb: "get", Path: "/apis/livesched.io/v1alpha1"}},
		{"GET", "/api/v1/namespaces/ml/pods", nil,
			&authorizationv1.NonResourceAttributes{Verb: "get", Path: "/api/v1/namespaces/ml/pods"}},
	} {
		p := &permitter{permits: func(authorizationv1.SubjectAccessReviewSpec) bool { return true }}
		var reached *request.RequestInfo
		answer := send(p.guard(t), test.method, test.path, func(_ http.ResponseWriter, r *http.Request) {
			reached, _ = request.RequestInfoFrom(r.Context())
		})
		if answer.Code != http.StatusOK || len(p.asked) != 1 {
			t.Errorf("%s %s: answer %d after %d reviews", test.method, test.path, answer.Code, len(p.asked))
			continue
		}
		if d := cmp.Diff(test.resource, p.asked[0].ResourceAttributes); d != "" {
			t.Errorf("%s %s: asked for another resource: %s", test.method, test.path, d)
		}
		if d := cmp.Diff(test.other, p.asked[0].NonResourceAttributes); d != "" {
			t.Errorf("%s %s: asked for another path: %s", test.method, test.path, d)
		}
		if a := test.resource; a != nil &&
			(reached.Name != a.Name || reached.Namespace != a.Namespace || reached.Subresource != a.Subresource ||
				reached.Verb != a.Verb) {
			t.Errorf("%s %s: the handler gets what was not authorized: %+v", test.method, test.path, reached)
		}
	}
}

func TestRefusalsOfResourcesAreStatuses(t *testing.T) {
	const path = "/apis/livesched.io/v1alpha1/namespaces/ml/podexplanations/train-7"
	status := func(answer *httptest.ResponseRecorder) (s metav1.Status) {
		t.Helper()
		if err := json.Unmarshal(answer.Body.Bytes(), &s); err != nil || s.Kind != "Status" || s.APIVersion != "v1" ||
			int(s.Code) != answer.Code {
			t.Errorf("not a Status: %s", answer.Body)
		}
		return s
	}
	unreached := func(http.ResponseWriter, *http.Request) { t.Error("the handler is called") }
	p := &permitter{permits: func(authorizationv1.SubjectAccessReviewSpec) bool { return false }}
	// A path that is open to everybody never stands for a resource.
	g := p.guard(t, "/apis/*")
	refused := status(send(g, http.MethodGet, path, unreached))
	const message = `podexplanations.livesched.io "train-7" is forbidden: User "somebody" cannot get resource ` +
		`"podexplanations" in API group "livesched.io" in the namespace "ml"`
	if refused.Reason != metav1.StatusReasonForbidden || refused.Message != message {
		t.Errorf("without the right: %+v", refused)
	}
	for range maxReviews {
		g.reviewing <- struct{}{}
	}
	answer := send(g, http.MethodGet, path, unreached)
	if busy := status(answer); busy.Reason != metav1.StatusReasonTooManyRequests ||
		answer.Header().Get("Retry-After") != "1" {
		t.Errorf("without room: %+v, %v", busy, answer.Header())
	}
	if answer := send(g, http.MethodGet, "/metrics", unreached); answer.Code != http.StatusTooManyRequests ||
		answer.Header().Get("Retry-After") != "1" {
		t.Errorf("without room for a path: %d, %v", answer.Code, answer.Header())
	}
	if got := status(refusedBy(t, g, path)); got.Reason != metav1.StatusReasonTooManyRequests {
		t.Errorf("without credentials nor room: %+v", got)
	}
	for range maxReviews {
		<-g.reviewing
	}
	if got := status(refusedBy(t, g, path)); got.Reason != metav1.StatusReasonUnauthorized {
		t.Errorf("without credentials: %+v", got)
	}
}

// refusedBy sends a request without credentials.
func refusedBy(t *testing.T, g *Guard, path string) *httptest.ResponseRecorder {
	t.Helper()
	answer := httptest.NewRecorder()
	g.Protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler is called") })).
		ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
	return answer
}

func TestAHandlerMayAskForAnotherRightOfTheCaller(t *testing.T) {
	nodes := authorizer.AttributesRecord{ResourceRequest: true, Verb: "list", APIVersion: "v1", Resource: "nodes"}
	for _, allowed := range []bool{true, false} {
		p := &permitter{permits: func(s authorizationv1.SubjectAccessReviewSpec) bool {
			return s.ResourceAttributes.Resource != "nodes" || allowed
		}}
		g := p.guard(t)
		send(g, http.MethodGet, "/apis/livesched.io/v1alpha1/namespaces/ml/podexplanations/a",
			func(_ http.ResponseWriter, r *http.Request) {
				if got, err := g.Allows(r.Context(), nodes); got != allowed || err != nil {
					t.Errorf("got %v, %v", got, err)
				}
			})
		if len(p.asked) != 2 || p.asked[1].User != "somebody" {
			t.Errorf("asked %+v", p.asked)
		}
		if _, err := g.Allows(context.Background(), nodes); err == nil {
			t.Error("without a user, it answers")
		}
	}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package secureserving

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// reviewer is an API server that answers TokenReviews alone.
type reviewer struct {
	// authenticates tells what it says about a token.
	authenticates bool
	reviews       atomic.Int32 // TokenReviews
}

func (s *reviewer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/apis/authentication.k8s.io/v1/tokenreviews" {
		http.Error(w, "forbidden", http.StatusForbidden)
		return
	}
	s.reviews.Add(1)
	review := &authenticationv1.TokenReview{
		TypeMeta: metav1.TypeMeta{APIVersion: authenticationv1.SchemeGroupVersion.String(), Kind: "TokenReview"},
		Status: authenticationv1.TokenReviewStatus{Authenticated: s.authenticates,
			User: authenticationv1.UserInfo{Username: "somebody"}},
	}
	text, err := runtime.Encode(scheme.Codecs.LegacyCodec(authenticationv1.SchemeGroupVersion), review)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text)
}

// guardFor returns a guard that asks an API server.
func guardFor(t *testing.T, s *reviewer) *Guard {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	client, err := clientset.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	g, err := NewGuard(client, Options{AlwaysAllow: []string{"/livez"}})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// ask sends a request with a token through a guard, and returns the status of the answer.
func ask(t *testing.T, g *Guard, path, token string) int {
	t.Helper()
	request := httptest.NewRequest(http.MethodGet, path, nil)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer := httptest.NewRecorder()
	g.Protect(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the handler gets the token")
		}
	})).ServeHTTP(answer, request)
	return answer.Code
}

func TestAnAPIServerThatRefusesToAnswerPermitsNothing(t *testing.T) {
	s := &reviewer{authenticates: true}
	g := guardFor(t, s)
	if got := ask(t, g, "/metrics", "token"); got != http.StatusInternalServerError {
		t.Errorf("a review of the right that fails: got %d", got)
	}
	if got := ask(t, g, "/metrics", ""); got != http.StatusUnauthorized {
		t.Errorf("no token: got %d", got)
	}
	if got := s.reviews.Load(); got != 1 {
		t.Errorf("%d TokenReviews: a request without a token needs none", got)
	}
	if got := ask(t, g, "/livez", "another token"); got != http.StatusOK || s.reviews.Load() != 1 {
		t.Errorf("health: got %d after %d TokenReviews", got, s.reviews.Load())
	}
}

func TestCallersBeyondTheLimitAreRefused(t *testing.T) {
	g := guardFor(t, &reviewer{})
	for range maxReviews {
		g.reviewing <- struct{}{}
	}
	if got := ask(t, g, "/metrics", "token"); got != http.StatusTooManyRequests {
		t.Errorf("no room: got %d", got)
	}
	if got := ask(t, g, "/livez", ""); got != http.StatusOK {
		t.Errorf("health waits for others: got %d", got)
	}
	<-g.reviewing
	if got := ask(t, g, "/metrics", "token"); got != http.StatusUnauthorized {
		t.Errorf("with room: got %d", got)
	}
}

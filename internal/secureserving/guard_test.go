// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package secureserving

import (
	"net/http"
	"net/http/httptest"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// ask sends a request with a token through a guard, and returns the status of the answer.
func ask(t *testing.T, handler http.Handler, path, token string) int {
	t.Helper()
	request := httptest.NewRequest(http.MethodGet, path, nil)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	return answer.Code
}

// guarded returns a handler that the client's answers protect.
func guarded(t *testing.T, client *fake.Clientset) http.Handler {
	t.Helper()
	g, err := NewGuard(client, []string{"/livez"})
	if err != nil {
		t.Fatal(err)
	}
	return g.Protect(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the handler gets the token")
		}
	}))
}

func knowsEveryToken(clienttesting.Action) (bool, runtime.Object, error) {
	return true, &authenticationv1.TokenReview{Status: authenticationv1.TokenReviewStatus{
		Authenticated: true, User: authenticationv1.UserInfo{Username: "somebody"},
	}}, nil
}

func TestAnAPIServerThatDoesNotAnswerPermitsNothing(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("create", "tokenreviews", knowsEveryToken)
	client.PrependReactor("create", "subjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(authorizationv1.Resource("subjectaccessreviews"), "", nil)
	})
	handler := guarded(t, client)
	if got := ask(t, handler, "/metrics", "token"); got != http.StatusInternalServerError {
		t.Errorf("authorization that fails: got %d", got)
	}
	client.PrependReactor("create", "tokenreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(authenticationv1.Resource("tokenreviews"), "", nil)
	})
	if got := ask(t, handler, "/metrics", "another token"); got != http.StatusUnauthorized {
		t.Errorf("authentication that fails: got %d", got)
	}
	if got := ask(t, handler, "/livez", "another token"); got != http.StatusOK {
		t.Errorf("health: got %d", got)
	}
}

func TestCallersBeyondTheLimitAreRefused(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("create", "tokenreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &authenticationv1.TokenReview{}, nil // not authenticated
	})
	g, err := NewGuard(client, []string{"/livez"})
	if err != nil {
		t.Fatal(err)
	}
	for range maxReviews {
		g.reviewing <- struct{}{}
	}
	handler := g.Protect(http.NotFoundHandler())
	if got := ask(t, handler, "/metrics", "token"); got != http.StatusTooManyRequests {
		t.Errorf("got %d", got)
	}
	if got := ask(t, handler, "/livez", ""); got != http.StatusNotFound {
		t.Errorf("health waits for others: got %d", got)
	}
	<-g.reviewing
	if got := ask(t, handler, "/metrics", "token"); got != http.StatusUnauthorized {
		t.Errorf("with room: got %d", got)
	}
}

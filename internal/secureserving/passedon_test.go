// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package secureserving

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/transport"
)

const kinds = "/apis/livesched.io/v1alpha1/pendingkinds"

// reached is what a handler behind a guard has seen.
type reached struct {
	user     user.Info
	passedOn bool
	header   http.Header
}

// through sends a request through a guard. The result is nil if no handler gets it.
func through(g *Guard, r *http.Request) (*httptest.ResponseRecorder, *reached) {
	var seen *reached
	answer := httptest.NewRecorder()
	g.Protect(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		who, _ := request.UserFrom(r.Context())
		seen = &reached{user: who, passedOn: PassedOn(r.Context()), header: r.Header}
	})).ServeHTTP(answer, r)
	return answer, seen
}

// from returns a request with a token. names are header names and values in turn.
func from(token, path string, names ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i < len(names); i += 2 {
		r.Header.Add(names[i], names[i+1])
	}
	return r
}

func TestAReplicaIsAnsweredForTheUserThatItNames(t *testing.T) {
	u := &users{}
	g := u.guard(t, Options{})
	r := from(own, kinds, PassedOnHeader, "livesched-1")
	transport.SetAuthProxyHeaders(r, "jane", "42", []string{"ml", "system:authenticated"},
		map[string][]string{"example.org/Team": {"a", "b"}})
	answer, seen := through(g, r)
	want := authorizationv1.SubjectAccessReviewSpec{User: "jane", UID: "42",
		Groups: []string{"ml", "system:authenticated"},
		Extra:  map[string]authorizationv1.ExtraValue{"example.org/team": {"a", "b"}},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Group: "livesched.io",
			Version: "v1alpha1", Resource: "pendingkinds"}}
	if diff := cmp.Diff(want, u.lastAsked()); diff != "" {
		t.Errorf("the right that is asked for (-want +got):\n%s", diff)
	}
	if seen == nil || seen.user.GetName() != "jane" || !seen.passedOn {
		t.Fatalf("the handler gets %+v: %s", seen, answer.Body)
	}
	if got := answer.Header().Get(AnsweredForHeader); got != "jane" {
		t.Errorf("the answer is for %q", got)
	}
	for name := range seen.header {
		if strings.HasPrefix(name, "X-Remote-") || name == PassedOnHeader || name == "Authorization" {
			t.Errorf("the handler gets the header %s", name)
		}
	}
}

func TestAUserWithoutTheRightIsRefusedByNameAlsoIfTheReplicaHasIt(t *testing.T) {
	g := (&users{refused: []string{"jane"}}).guard(t, Options{})
	answer, seen := through(g, from(own, kinds, PassedOnHeader, "livesched-1", "X-Remote-User", "jane"))
	if seen != nil || answer.Code != http.StatusForbidden || !strings.Contains(answer.Body.String(), `User \"jane\" cannot`) {
		t.Errorf("got %d: %s", answer.Code, answer.Body)
	}
	if got := answer.Header().Get(AnsweredForHeader); got != "jane" {
		t.Errorf("the refusal is for %q", got)
	}
}

func TestHeadersOfAnybodyElseNameNobody(t *testing.T) {
	forged := []string{"X-Remote-User", "admin", "X-Remote-Group", "system:masters", "X-Remote-Uid", "1",
		"X-Remote-Extra-Scopes", "all"}
	// Without the flag and with it: there is no certificate of the API server.
	for _, o := range []Options{{}, {FrontProxy: true}} {
		u := &users{}
		g := u.guard(t, o)
		for _, sender := range []string{"somebody", own} {
			answer, seen := through(g, from(sender, kinds, forged...))
			if seen == nil || seen.user.GetName() != sender || seen.passedOn || u.lastAsked().User != sender {
				t.Fatalf("%s without the header of replicas is taken for %+v: %s", sender, seen, answer.Body)
			}
			for name := range seen.header {
				if strings.HasPrefix(name, "X-Remote-") {
					t.Errorf("the handler gets the header %s", name)
				}
			}
			if answer.Header().Get(AnsweredForHeader) != "" {
				t.Error("the answer claims to be for another user")
			}
		}
		for _, sender := range []string{"somebody", "system:serviceaccount:other:livesched", own + "2"} {
			before := u.lastAsked()
			answer, seen := through(g, from(sender, kinds, append(forged, PassedOnHeader, "livesched-1")...))
			if seen != nil || answer.Code != http.StatusForbidden ||
				!strings.Contains(answer.Body.String(), "cannot pass requests on") {
				t.Errorf("%s passes a request on: %d: %s", sender, answer.Code, answer.Body)
			}
			if diff := cmp.Diff(before, u.lastAsked()); diff != "" {
				t.Errorf("%s: the API server is asked about %+v", sender, u.lastAsked())
			}
		}
		// Without credentials, the headers are none.
		r := httptest.NewRequest(http.MethodGet, kinds, nil)
		r.Header.Set("X-Remote-User", "admin")
		r.Header.Set(PassedOnHeader, "livesched-1")
		if answer, seen := through(g, r); seen != nil || answer.Code != http.StatusUnauthorized {
			t.Errorf("without credentials: %d", answer.Code)
		}
	}
}

func TestAReplicaPassesOnQuestionsOfNamedUsersAlone(t *testing.T) {
	g := (&users{}).guard(t, Options{})
	for what, r := range map[string]*http.Request{
		"only questions about resources": from(own, "/debug/pprof/heap", PassedOnHeader, "livesched-1",
			"X-Remote-User", "admin", "X-Remote-Group", "system:masters"),
		"names no user": from(own, kinds, PassedOnHeader, "livesched-1", "X-Remote-Group", "system:masters"),
	} {
		answer, seen := through(g, r)
		if seen != nil || answer.Code != http.StatusForbidden || !strings.Contains(answer.Body.String(), what) {
			t.Errorf("want %q, got %d: %s", what, answer.Code, answer.Body)
		}
	}
}

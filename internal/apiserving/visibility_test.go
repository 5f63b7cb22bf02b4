// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserving

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTheVisibilityGroupIsAnsweredAsTheOtherOne(t *testing.T) {
	const from, to = "/apis/visibility.livesched.io/", "/apis/livesched.io/"
	for path, want := range map[string]string{
		from + "v1alpha1/queues?a=b":             to + "v1alpha1/queues?a=b",
		from + "v1alpha1/namespaces/a/decisions": to + "v1alpha1/namespaces/a/decisions",
		from + "v1alpha1/namespaces/a%2Fb/c":     to + "v1alpha1/namespaces/a%2Fb/c",
		from + "v1alpha1":                        from + "v1alpha1",
		from + "v1alpha1/":                       from + "v1alpha1/",
		from + "v1alpha2/queues":                 from + "v1alpha2/queues",
		"/apis/livesched.io/v1alpha1/queues":     "/apis/livesched.io/v1alpha1/queues",
		"/ui/?next=" + from + "v1alpha1/queues":  "/ui/?next=" + from + "v1alpha1/queues",
	} {
		var got string
		next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.URL.String() })
		r := httptest.NewRequest(http.MethodGet, path, nil)
		Visibility(next).ServeHTTP(httptest.NewRecorder(), r)
		if got != want || r.URL.String() != path {
			t.Errorf("%s is answered as %s, want %s", path, got, want)
		}
	}
}

// discovered returns the answer of the handlers of discovery.
func discovered(t *testing.T, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	mux := http.NewServeMux()
	for path, handler := range Discovery() {
		mux.Handle(path, handler)
	}
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(method, path, nil))
	return answer
}

func TestDiscoveryListsWhatCanBeAsked(t *testing.T) {
	const group = "/apis/visibility.livesched.io"
	var list metav1.APIResourceList
	if err := json.Unmarshal(discovered(t, http.MethodGet, group+"/v1alpha1").Body.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, r := range list.APIResources {
		scope := "cluster"
		if r.Namespaced {
			scope = "namespaced"
		}
		got[r.Name] = strings.Join(append(r.Verbs, scope, r.Group, r.Version, r.Kind), " ")
	}
	const in = " livesched.io v1alpha1 "
	want := map[string]string{
		"capacities":      "create namespaced" + in + "Capacity",
		"decisions":       "list namespaced" + in + "Decision",
		"loadsamples":     "list cluster" + in + "LoadSample",
		"nodeallocations": "list cluster" + in + "NodeAllocation",
		"pendingkinds":    "list namespaced" + in + "PendingKind",
		"podexplanations": "get namespaced" + in + "PodExplanation",
		"queues":          "list cluster" + in + "Queue",
		"simulations":     "create namespaced" + in + "Simulation",
		"snapshots":       "get cluster" + in + "Snapshot",
	}
	if diff := cmp.Diff(want, got); diff != "" || list.GroupVersion != "visibility.livesched.io/v1alpha1" ||
		list.Kind != "APIResourceList" || len(got) != len(verbs) {
		t.Errorf("got %s of %s (-want +got):\n%s", list.Kind, list.GroupVersion, diff)
	}
	var of metav1.APIGroup
	for _, path := range []string{group, group + "/"} {
		err := json.Unmarshal(discovered(t, http.MethodGet, path).Body.Bytes(), &of)
		if err != nil || of.Kind != "APIGroup" || len(of.Versions) != 1 ||
			of.PreferredVersion.GroupVersion != "visibility.livesched.io/v1alpha1" {
			t.Errorf("%s: got %+v, %v", path, of, err)
		}
	}
	for _, path := range []string{"/openapi/v2", "/openapi/v3"} {
		if answer := discovered(t, http.MethodGet, path); answer.Code != http.StatusNotFound ||
			!strings.HasPrefix(answer.Body.String(), "livesched has no OpenAPI document") {
			t.Errorf("%s: got %d %s", path, answer.Code, answer.Body)
		}
	}
	if answer := discovered(t, http.MethodDelete, group); answer.Code != http.StatusMethodNotAllowed {
		t.Errorf("DELETE: got %d", answer.Code)
	}
	if answer := discovered(t, http.MethodGet, group+"/v1alpha1/x"); answer.Code != http.StatusNotFound {
		t.Errorf("below discovery: got %d", answer.Code)
	}
}

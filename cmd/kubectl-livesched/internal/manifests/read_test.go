// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/livesched/livesched/cmd/kubectl-livesched/internal/manifests"
)

func TestURLsAreRead(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/a.yaml":
			_, _ = io.WriteString(w, "kind: A\n---\nkind: B\n")
		case "/large.yaml":
			_, _ = io.WriteString(w, strings.Repeat("# long\n", 3<<20))
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	documents, err := manifests.Read([]string{server.URL + "/a.yaml"}, false, nil)
	if err != nil || len(documents) != 2 {
		t.Fatalf("%v, %v", documents, err)
	}
	if place := documents[1].Place(); place != server.URL+"/a.yaml:3 (document 2)" {
		t.Error(place)
	}
	for path, want := range map[string]string{"/none": "the server answered 404 Not Found",
		"/large.yaml": "it is larger than"} {
		if _, err := manifests.Read([]string{server.URL + path}, false, nil); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/livesched/livesched/test/dashboarddata"
)

// cluster returns the source of a cluster with 400 nodes.
func cluster() *dashboarddata.Source {
	return &dashboarddata.Source{Nodes: 400, Kinds: 4, Pods: 312}
}

// pagesOf returns the handler of a source, below a prefix.
func pagesOf(prefix string, s Source) http.Handler {
	return NewHandler(prefix, func(*http.Request) (Source, error) { return s, nil }, nil)
}

// get returns the answer to a request.
func get(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

// text returns the body of an answer with a status.
func text(t *testing.T, h http.Handler, path string, status int) string {
	t.Helper()
	w := get(h, path)
	if w.Code != status {
		t.Errorf("GET %s: status %d, not %d\n%.500s", path, w.Code, status, w.Body)
	}
	return w.Body.String()
}

// contains fails the test unless a page has all texts.
func contains(t *testing.T, page string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(page, text) {
			t.Errorf("the page lacks %q", text)
		}
	}
}

// attributes returns the values of attributes in a page.
func attributes(t *testing.T, page string, names ...string) (values []string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for node := range root.Descendants() {
		for _, a := range node.Attr {
			for _, name := range names {
				if a.Key == name {
					values = append(values, a.Val)
				}
			}
		}
	}
	return values
}

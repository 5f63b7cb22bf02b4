// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/test/dashboarddata"
)

// methods are those of a Source, with a page that needs each, and a text of the page that does not.
var methods = map[string][2]string{
	"PendingKinds":    {"/", "livesched-6c9d7b5f4-2xkzq"},
	"NodeAllocations": {"/", "312 pods wait"},
	"LoadSamples":     {"/", "312 pods wait"},
	"Profiles":        {"/", "312 pods wait"},
	"Decisions":       {"/pods/ml/llama-train-0", "No node can take it now"},
}

func TestAPartThatFailsSaysWhy(t *testing.T) {
	for method, page := range methods {
		for words, err := range map[string]error{
			"You may not see this.":             dashboarddata.Forbidden(),
			"you need the permission":           dashboarddata.Forbidden(),
			"livesched cannot answer now.":      dashboarddata.Busy(),
			"loaded again by itself":            dashboarddata.Busy(),
			"livesched is busy.":                apierrors.NewTooManyRequestsError("too many"),
			"livesched did not answer in time.": context.DeadlineExceeded,
			"livesched failed to answer.":       io.ErrUnexpectedEOF,
		} {
			s := cluster()
			s.Errors = map[string]error{method: err}
			got := text(t, pagesOf("", s), page[0], http.StatusOK)
			if !strings.Contains(got, words) || !strings.Contains(got, page[1]) {
				t.Errorf("%s with %v: the page lacks %q or %q", method, err, words, page[1])
			}
		}
	}
}

// slow is a source that does not answer about the load.
type slow struct{ *dashboarddata.Source }

func (s slow) LoadSamples(ctx context.Context, _ time.Duration) (*v1alpha1.LoadSampleList, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestAPartThatIsSlowDoesNotHoldUpTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		page := text(t, pagesOf("", slow{cluster()}), "/", http.StatusOK)
		contains(t, page, "livesched did not answer in time.", "312 pods wait", "a100", "default-next")
		if took := time.Since(began); took != partTime {
			t.Errorf("the page took %s", took)
		}
	})
}

func TestAPageThatFailsHasTheStatus(t *testing.T) {
	for _, test := range []struct {
		method, path string
		err          error
		status       int
	}{
		{"Explain", "/pods/ml/a", dashboarddata.Forbidden(), http.StatusForbidden},
		{"Explain", "/pods/ml/a", dashboarddata.Busy(), http.StatusServiceUnavailable},
		{"", "/pods/ml/" + dashboarddata.Missing, nil, http.StatusNotFound},
		{"PendingPods", "/kinds/ml/kind-0", dashboarddata.Forbidden(), http.StatusForbidden},
		{"PendingPods", "/parts/kinds/ml/kind-0", dashboarddata.Busy(), http.StatusOK},
		{"NodeAllocations", "/nodes", dashboarddata.Forbidden(), http.StatusForbidden},
		{"NodeAllocations", "/nodes/a", dashboarddata.Forbidden(), http.StatusForbidden},
		{"NodeAllocations", "/data/room", dashboarddata.Forbidden(), http.StatusForbidden},
		{"", "/nodes/missing", nil, http.StatusNotFound},
		{"", "/groups/ml/missing", nil, http.StatusNotFound},
		{"Decisions", "/decisions", apierrors.NewBadRequest("the parameter result"), http.StatusBadRequest},
		{"Decisions", "/parts/decisions?after=7", dashboarddata.Busy(), http.StatusOK},
		{"", "/parts/pods/ml/" + dashboarddata.Missing, nil, http.StatusOK},
		{"", "/parts/decisions-of/profile/a", nil, http.StatusNotFound},
		{"", "/nowhere", nil, http.StatusNotFound},
		{"", "/assets/0/none.js", nil, http.StatusNotFound},
	} {
		s := cluster()
		if test.method != "" {
			s.Errors = map[string]error{test.method: test.err}
		}
		page := text(t, pagesOf("", s), test.path, test.status)
		if test.path == "/parts/decisions?after=7" {
			contains(t, page, "after=7", "failed=1", "no replica leads now")
		}
	}
}

// TestAProblemOnAPageThatIsPolled takes the place of the nodes if it stays: htmx shows no answer
// with the status of an error.
func TestAProblemOnAPageThatIsPolled(t *testing.T) {
	for err, status := range map[error]int{
		dashboarddata.Forbidden(): http.StatusOK, dashboarddata.Busy(): http.StatusServiceUnavailable,
	} {
		s := cluster()
		s.Errors = map[string]error{"NodeAllocations": err}
		r := httptest.NewRequest(http.MethodGet, "/nodes?pool=a100", nil)
		r.Header.Set("HX-Request", "true")
		w := httptest.NewRecorder()
		pagesOf("", s).ServeHTTP(w, r)
		if w.Code != status {
			t.Errorf("%v: status %d", err, w.Code)
		}
		contains(t, w.Body.String(), `class="problem"`, `hx-get="/nodes?pool=a100"`)
	}
}

// TestUsersOfOneNamespace may not see the pending pods of all.
func TestUsersOfOneNamespace(t *testing.T) {
	s := cluster()
	s.Errors = map[string]error{"PendingKinds": dashboarddata.Forbidden()}
	hint := "If you may list the pods of one namespace, name it above."
	contains(t, text(t, pagesOf("", s), "/", http.StatusOK), hint, "It is not known how many pods wait.")
	if page := text(t, pagesOf("", s), "/?namespace=ml", http.StatusOK); strings.Contains(page, hint) {
		t.Error("the page asks for a namespace when one is named")
	}
}

func TestUsersThatAreUnknown(t *testing.T) {
	h := NewHandler("", func(*http.Request) (Source, error) { return nil, apierrors.NewUnauthorized("no token") }, nil)
	contains(t, text(t, h, "/", http.StatusUnauthorized), "You are not signed in.", "no token")
	contains(t, text(t, h, "/parts/kinds", http.StatusUnauthorized), "You are not signed in.")
}

// TestTextsAreEscaped has markup in all texts that users choose.
func TestTextsAreEscaped(t *testing.T) {
	s := cluster()
	s.Hostile = `<script>alert(1)</script>"'><img src=x onerror=alert(1)>`
	h := pagesOf("/ui", s)
	for path := range paths {
		page := get(h, "/ui"+path).Body.String()
		for _, markup := range []string{"<script>alert", "<img"} {
			if strings.Contains(page, markup) && !strings.HasPrefix(path, "/data/") {
				t.Errorf("%s has %s", path, markup)
			}
		}
	}
	page := text(t, h, "/ui/pods/ml/%3Cscript%3Ealert(1)%3C%2Fscript%3E?node=%22%3E%3Cimg%20src=x%3E", http.StatusOK)
	if strings.Contains(page, "<script>alert") || strings.Contains(page, "<img") {
		t.Error("a name is not escaped")
	}
}

func TestNothingIsInline(t *testing.T) {
	h := pagesOf("/ui", cluster())
	for path := range paths {
		page := get(h, "/ui"+path).Body.String()
		if strings.Contains(page, "<style") || strings.Contains(page, "javascript:") {
			t.Errorf("%s has an inline style or script", path)
		}
		if styles := attributes(t, page, "style", "onclick", "onload", "hx-on"); len(styles) > 0 {
			t.Errorf("%s has %v", path, styles)
		}
	}
}

func TestHeaders(t *testing.T) {
	h := pagesOf("/ui", cluster())
	for _, path := range []string{"/ui/", "/ui/nowhere", "/ui/parts/kinds", "/ui/data/room", "/other"} {
		w := get(h, path)
		for name, value := range headers {
			if got := w.Header().Get(name); got != value {
				t.Errorf("%s: %s is %q, not %q", path, name, got, value)
			}
		}
	}
	if policy := headers["Content-Security-Policy"]; strings.Contains(policy, "unsafe") {
		t.Error(policy)
	}
}

func TestMethods(t *testing.T) {
	h := pagesOf("", cluster())
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, "/decisions", nil))
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" ||
			w.Header().Get("Content-Security-Policy") == "" {
			t.Errorf("%s: status %d, Allow %q", method, w.Code, w.Header().Get("Allow"))
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodHead, "/", nil))
	if w.Code != http.StatusOK || w.Body.Len() != 0 || w.Header().Get("Content-Length") == "" {
		t.Errorf("HEAD: status %d, %d bytes", w.Code, w.Body.Len())
	}
}

func TestCompression(t *testing.T) {
	h := pagesOf("", cluster())
	plain := text(t, h, "/", http.StatusOK)
	for header, compressed := range map[string]bool{
		"gzip, br": true, "br;q=1.0, gzip; q=0.8": true, "gzip;q=0": false, "identity": false, "": false,
	} {
		r := httptest.NewRequest(http.MethodGet, "/nodes", nil)
		r.Header.Set("Accept-Encoding", header)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := w.Header().Get("Content-Encoding") == "gzip"; got != compressed {
			t.Errorf("Accept-Encoding %q: compressed is %t", header, got)
		} else if got {
			z, err := gzip.NewReader(w.Body)
			if err != nil {
				t.Fatal(err)
			}
			page, err := io.ReadAll(z)
			if err != nil || string(page) != text(t, h, "/nodes", http.StatusOK) {
				t.Errorf("the compressed page differs: %v", err)
			}
		}
	}
	if !strings.HasSuffix(strings.TrimSpace(plain), "</html>") {
		t.Error("the page has no end")
	}
}

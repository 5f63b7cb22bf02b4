// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserving

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// snapshotter writes a snapshot by a function, which gets what was asked for.
type snapshotter func(ctx context.Context, w io.Writer, redacted bool, decisions int) error

func (s snapshotter) Snapshot(_ context.Context, decisions int) (func(context.Context, io.Writer, bool) error, error) {
	if s == nil {
		return nil, apierrors.NewServiceUnavailable("not ready")
	}
	return func(ctx context.Context, w io.Writer, redacted bool) error { return s(ctx, w, redacted, decisions) }, nil
}

const snapshots = "/apis/livesched.io/v1alpha1/snapshots"

func TestSnapshotsAreFiles(t *testing.T) {
	h := handler(fakes{snapshotter: func(_ context.Context, w io.Writer, redacted bool, decisions int) error {
		_, err := fmt.Fprintf(w, "redacted=%v decisions=%d", redacted, decisions)
		return err
	}}, nil)
	for path, want := range map[string]string{
		"/redacted":             "redacted=true decisions=10000",
		"/plain":                "redacted=false decisions=10000",
		"/redacted?decisions=0": "redacted=true decisions=0",
		"/plain?decisions=7":    "redacted=false decisions=7",
	} {
		answer := get(h, snapshots+path)
		if answer.Code != http.StatusOK || answer.Body.String() != want ||
			answer.Header().Get("Content-Type") != "application/gzip" {
			t.Errorf("%s: got %d %q, want %q", path, answer.Code, answer.Body, want)
		}
	}
	if len(h.simulating.present) != 0 {
		t.Error("a snapshot has not left the turnstile")
	}
}

func TestWrongRequestsForSnapshotsAreStatuses(t *testing.T) {
	h := handler(fakes{}, nil)
	for path, want := range map[string]metav1.StatusReason{
		"/redacted":             metav1.StatusReasonServiceUnavailable,
		"/all":                  metav1.StatusReasonNotFound,
		"/plain?decisions=-1":   metav1.StatusReasonBadRequest,
		"/plain?decisions=many": metav1.StatusReasonBadRequest,
		"":                      metav1.StatusReasonMethodNotAllowed,
		"/plain/status":         metav1.StatusReasonNotFound,
	} {
		if got := statusIn(t, get(h, snapshots+path)); got.Reason != want {
			t.Errorf("%s: got %+v, want %s", path, got, want)
		}
	}
	for _, path := range []string{"/apis/livesched.io/v1alpha1/namespaces/ml/snapshots/plain", snapshots + "/plain/x"} {
		if got := get(h, path); got.Code != http.StatusNotFound {
			t.Errorf("%s: got %d", path, got.Code)
		}
	}
	if got := statusIn(t, send(h, httptest.NewRequest(http.MethodDelete, snapshots+"/plain", nil))); got.Reason !=
		metav1.StatusReasonMethodNotAllowed {
		t.Errorf("a deletion: got %+v", got)
	}
	if got := statusIn(t, send(h,
		httptest.NewRequest(http.MethodGet, snapshots+"/plain", strings.NewReader("body")))); got.Reason !=
		metav1.StatusReasonRequestEntityTooLarge {
		t.Errorf("a body: got %+v", got)
	}
	if len(h.simulating.present) != 0 {
		t.Error("a refused snapshot has not left the turnstile")
	}
}

// TestAnIncompleteSnapshotBreaksTheConnection sends a snapshot that fails half way.
func TestAnIncompleteSnapshotBreaksTheConnection(t *testing.T) {
	h := handler(fakes{snapshotter: func(_ context.Context, w io.Writer, _ bool, _ int) error {
		_, err := io.WriteString(w, strings.Repeat("half ", 10000))
		return errors.Join(err, errors.New("broken"))
	}}, nil)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, authorized(r))
	}))
	defer server.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+snapshots+"/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.ReadAll(answer.Body); err == nil {
		t.Error("the client takes it for complete")
	}
	if len(h.simulating.present) != 0 {
		t.Error("the snapshot has not left the turnstile")
	}
}

// TestSnapshotsAndSimulationsTakeTurns fills the turnstile with others.
func TestSnapshotsAndSimulationsTakeTurns(t *testing.T) {
	h := handler(fakes{}, nil)
	for range 1 + maxWaiting {
		h.simulating.present <- struct{}{}
	}
	if got := statusIn(t, get(h, snapshots+"/plain")); got.Reason != metav1.StatusReasonTooManyRequests {
		t.Errorf("got %+v", got)
	}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserving

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"github.com/livesched/livesched/api/v1alpha1"
)

// Snapshots is the resource of snapshots. There are two: a user may be permitted to get the
// redacted one alone.
const (
	Snapshots        = "snapshots"
	RedactedSnapshot = "redacted"
	PlainSnapshot    = "plain"
)

const (
	// DecisionsParameter is the parameter of a request with the number of decisions in the
	// snapshot.
	DecisionsParameter = "decisions"
	// DefaultDecisions is its default.
	DefaultDecisions = 10000

	// snapshotTimeout limits the time in which a snapshot is written, and its client takes it.
	snapshotTimeout = time.Minute
)

// Snapshotter takes snapshots. Any goroutine may call it.
type Snapshotter interface {
	// Snapshot returns what writes a snapshot of the present state, with at most a number of
	// decisions. If this replica cannot answer yet, the error is an apierrors.APIStatus.
	Snapshot(ctx context.Context, decisions int) (write func(ctx context.Context, w io.Writer, redacted bool) error, err error)
}

// file is an answer that is no object.
type file struct {
	write func(w io.Writer) error
	// done must be called.
	done func()
}

// snapshot answers with a snapshot. It takes the turn of a simulation.
func (h *Handler) snapshot(r *http.Request, name string) (*file, error) {
	if name != RedactedSnapshot && name != PlainSnapshot {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: Snapshots}, name)
	}
	decisions := DefaultDecisions
	if text := r.URL.Query().Get(DecisionsParameter); text != "" {
		var err error
		if decisions, err = strconv.Atoi(text); err != nil || decisions < 0 {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("the parameter %s must be a number from 0, not %q", DecisionsParameter, text))
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), snapshotTimeout)
	leave, err := h.simulating.enter(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	done := func() { leave(); cancel() }
	write, err := h.Snapshotter.Snapshot(ctx, decisions)
	if err != nil {
		done()
		return nil, err
	}
	return &file{done: done, write: func(w io.Writer) error { return write(ctx, w, name == RedactedSnapshot) }}, nil
}

// send writes a file. If that fails, it breaks the connection, so that the client does not take the
// file for complete.
func (f *file) send(w http.ResponseWriter, r *http.Request) {
	defer f.done()
	// A test's ResponseWriter may not support it.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(snapshotTimeout))
	w.Header().Set("Content-Type", "application/gzip")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-cache, private")
	if err := f.write(w); err != nil {
		klog.FromContext(r.Context()).Info("A snapshot was not sent completely", "err", err)
		panic(http.ErrAbortHandler)
	}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserving

import (
	"context"
	"fmt"
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

// snapshot sends a snapshot. It takes the turn of a simulation. If writing it fails, it breaks the
// connection, so that the client does not take the file for complete.
func (h *Handler) snapshot(w http.ResponseWriter, r *http.Request, answers Answers, name string) error {
	if name != RedactedSnapshot && name != PlainSnapshot {
		return apierrors.NewNotFound(schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: Snapshots},
			name)
	}
	decisions := DefaultDecisions
	if text := r.URL.Query().Get(DecisionsParameter); text != "" {
		var err error
		if decisions, err = strconv.Atoi(text); err != nil || decisions < 0 {
			return apierrors.NewBadRequest(fmt.Sprintf("the parameter %s must be a number from 0, not %q",
				DecisionsParameter, text))
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), snapshotTimeout)
	defer cancel()
	leave, err := h.simulating.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	write, err := answers.Snapshot(ctx, decisions)
	if err != nil {
		return err
	}
	// A test's ResponseWriter may not support it.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(snapshotTimeout))
	w.Header().Set("Content-Type", "application/gzip")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-cache, private")
	if err := write(ctx, w, name == RedactedSnapshot); err != nil {
		klog.FromContext(r.Context()).Info("A snapshot was not sent completely", "err", err)
		panic(http.ErrAbortHandler)
	}
	return nil
}

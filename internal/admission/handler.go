// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// outcome is the outcome of a review. It belongs to one HTTP request.
type outcome struct {
	// begun reports whether the request contained a review.
	begun bool
	// err is the reason why there is no verdict.
	err error
}

type outcomeKey struct{}

const (
	// maxRequest is the size of the largest request. It has at most two objects, before and after
	// the change, and etcd stores objects of up to 1.5 MiB.
	maxRequest = 3<<20 + 64<<10
	// maxReviews limits the reviews at the same time. They keep a CPU busy, which scheduling needs.
	maxReviews = 2
	// maxQueueing is the time that a request waits for its turn, and retryAfter, in seconds, is
	// when it may come again. The API server does, within the timeout of config/webhook: it makes
	// three attempts.
	maxQueueing = time.Second
	retryAfter  = "1"
)

// handler is the HTTP handler of the webhook. The goroutines of the server call it concurrently.
type handler struct {
	reviews *admission.Webhook
	slots   *semaphore.Weighted // one for each review in progress; it is fair
	// failures limits the lines in the log about failed requests.
	failures rate.Sometimes
}

// Handler returns the HTTP handler of the webhook.
//
// A response that denies a request does so under every failurePolicy. So without a verdict there
// must be no response: the call fails with HTTP 500, also after a panic. A request that is not a
// review fails with HTTP 400, one that is too large with 413, and one that waited too long for its
// turn with 429.
func (v *Validator) Handler() http.Handler {
	noRecovery := false
	return &handler{
		reviews: &admission.Webhook{
			RecoverPanic: &noRecovery,
			// The handler logs what fails.
			LogConstructor: func(logr.Logger, *admission.Request) logr.Logger { return logr.Discard() },
			Handler: admission.HandlerFunc(func(ctx context.Context, request admission.Request) admission.Response {
				o, _ := ctx.Value(outcomeKey{}).(*outcome)
				o.begun = true
				var response admission.Response
				response, o.err = v.review(ctx, request)
				return response
			}),
		},
		slots:    semaphore.NewWeighted(maxReviews),
		failures: rate.Sometimes{First: 10, Interval: quiet},
	}
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// A request is read before it has its turn: otherwise, slow ones would delay the others.
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		h.fail(w, r, http.StatusRequestEntityTooLarge, fmt.Errorf("the request is larger than %d bytes", maxRequest))
		return
	}
	if err != nil {
		h.fail(w, r, http.StatusBadRequest, fmt.Errorf("reading the request: %w", err))
		return
	}
	if err := h.await(r.Context()); err != nil {
		w.Header().Set("Retry-After", retryAfter)
		h.fail(w, r, http.StatusTooManyRequests, err)
		return
	}
	defer h.slots.Release(1)
	r.Body = io.NopCloser(bytes.NewReader(body))
	o, response := h.review(r)
	if o.err != nil {
		h.fail(w, r, http.StatusInternalServerError, o.err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if !o.begun {
		h.failures.Do(func() {
			log.FromContext(r.Context()).Info("A request to the webhook is not a review", "from", r.RemoteAddr,
				"response", response.String())
		})
		w.WriteHeader(http.StatusBadRequest) // the response has the reason
	}
	_, _ = w.Write(response.Bytes())
}

// await waits for the request's turn. After nil, the caller must release the slot.
func (h *handler) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maxQueueing)
	defer cancel()
	if h.slots.Acquire(ctx, 1) != nil {
		return fmt.Errorf("too many requests: %d reviews are in progress", maxReviews)
	}
	return nil
}

// review reviews the request. It returns the panic of a review as an error.
func (h *handler) review(r *http.Request) (o *outcome, response *buffer) {
	o, response = &outcome{}, &buffer{header: http.Header{}}
	defer func() {
		if panicked := recover(); panicked != nil {
			o.err = fmt.Errorf("panic: %v", panicked)
			h.failures.Do(func() {
				log.FromContext(r.Context()).Error(o.err, "Panic while validating an object", "stack",
					string(debug.Stack()))
			})
		}
	}()
	h.reviews.ServeHTTP(response, r.WithContext(context.WithValue(r.Context(), outcomeKey{}, o)))
	return o, response
}

// fail responds that there is no verdict.
func (h *handler) fail(w http.ResponseWriter, r *http.Request, code int, err error) {
	h.failures.Do(func() {
		log.FromContext(r.Context()).
			Error(err, "Failed to validate an object; the failurePolicy of the webhook applies", "code", code, "from",
				r.RemoteAddr)
	})
	http.Error(w, err.Error(), code)
}

// buffer holds a response until it is known to be a verdict.
type buffer struct {
	bytes.Buffer
	header http.Header
}

func (b *buffer) Header() http.Header { return b.header }
func (b *buffer) WriteHeader(int)     {}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"runtime/debug"

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

// Handler returns the HTTP handler of the webhook.
//
// A response that denies a request does so under every failurePolicy. So without a verdict there
// must be no response: the call fails with HTTP 500, also after a panic. A request that is not a
// review fails with HTTP 400.
func (v *Validator) Handler() http.Handler {
	noRecovery := false
	reviews := &admission.Webhook{RecoverPanic: &noRecovery, Handler: admission.HandlerFunc(func(ctx context.Context, request admission.Request) admission.Response {
		o, _ := ctx.Value(outcomeKey{}).(*outcome)
		o.begun = true
		var response admission.Response
		response, o.err = v.review(ctx, request)
		return response
	})}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o, response := &outcome{}, &buffer{header: http.Header{}}
		func() {
			defer func() {
				if panicked := recover(); panicked != nil {
					o.err = fmt.Errorf("panic: %v", panicked)
					log.FromContext(r.Context()).Error(o.err, "Panic while validating an object", "stack", string(debug.Stack()))
				}
			}()
			reviews.ServeHTTP(response, r.WithContext(context.WithValue(r.Context(), outcomeKey{}, o)))
		}()
		if o.err != nil {
			log.FromContext(r.Context()).Error(o.err, "Failed to validate an object; the failurePolicy of the webhook applies")
			http.Error(w, o.err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if !o.begun {
			w.WriteHeader(http.StatusBadRequest) // the response has the reason
		}
		_, _ = w.Write(response.Bytes())
	})
}

// buffer holds a response until it is known to be a verdict.
type buffer struct {
	bytes.Buffer
	header http.Header
}

func (b *buffer) Header() http.Header { return b.header }
func (b *buffer) WriteHeader(int)     {}

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

// outcome is where a review leaves word of itself. It belongs to one HTTP request.
type outcome struct {
	// begun: the request was one for a review.
	begun bool
	// err is why it came to no verdict.
	err error
}

type outcomeKey struct{}

// Handler serves reviews over HTTP.
//
// An answer that says no refuses the change whatever failurePolicy is. So where there is no verdict
// there must be no answer: the call ends with HTTP 500. This also goes for a panic. What is no
// review at all ends with HTTP 400.
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
		o, answer := &outcome{}, &buffer{header: http.Header{}}
		func() {
			defer func() {
				if panicked := recover(); panicked != nil {
					o.err = fmt.Errorf("panic: %v", panicked)
					log.FromContext(r.Context()).Error(o.err, "The validation of an object panicked", "stack", string(debug.Stack()))
				}
			}()
			reviews.ServeHTTP(answer, r.WithContext(context.WithValue(r.Context(), outcomeKey{}, o)))
		}()
		if o.err != nil {
			log.FromContext(r.Context()).Error(o.err, "An object could not be validated: the failurePolicy of the webhook decides")
			http.Error(w, o.err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if !o.begun {
			w.WriteHeader(http.StatusBadRequest) // the answer says why
		}
		_, _ = w.Write(answer.Bytes())
	})
}

// buffer keeps an answer back until it is known to be one.
type buffer struct {
	bytes.Buffer
	header http.Header
}

func (b *buffer) Header() http.Header { return b.header }
func (b *buffer) WriteHeader(int)     {}

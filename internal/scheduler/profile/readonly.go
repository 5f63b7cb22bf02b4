// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"
)

// ReadOnly returns a configuration whose clients get, list and watch, and refuse everything else
// before it is sent.
func ReadOnly(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return readOnly{next} })
	return cfg
}

// readOnly refuses requests that may change something.
type readOnly struct{ next http.RoundTripper }

// RefusedError is the error of a request that would have changed something.
type RefusedError struct{ Method, Path string }

// Error implements error.
func (r *RefusedError) Error() string {
	return fmt.Sprintf("%s %s was not sent: plugins that try what would happen must not write to the API server",
		r.Method, r.Path)
}

// RoundTrip implements http.RoundTripper. A connection that is upgraded could do anything.
func (r readOnly) RoundTrip(request *http.Request) (*http.Response, error) {
	if (request.Method == http.MethodGet || request.Method == http.MethodHead) && request.Header.Get("Upgrade") == "" {
		return r.next.RoundTrip(request)
	}
	if request.Body != nil {
		_ = request.Body.Close() // as http.RoundTripper must
	}
	return nil, &RefusedError{Method: request.Method, Path: request.URL.Path}
}

// WrappedRoundTripper returns what is below: net/http closes its idle connections through it.
func (r readOnly) WrappedRoundTripper() http.RoundTripper { return r.next }

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler_test

import (
	"errors"
	"net/http"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// faults stands between livesched and the API server and spoils calls.
type faults struct {
	mu    sync.Mutex // guards spoil
	spoil func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error)
}

// config is a client configuration whose calls go through the faults.
func (f *faults) config() *rest.Config {
	c := rest.CopyConfig(cluster.Config)
	c.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			f.mu.Lock()
			spoil := f.spoil
			f.mu.Unlock()
			send := func() (*http.Response, error) { return next.RoundTrip(r) }
			if spoil == nil {
				return send()
			}
			return spoil(r, send)
		})
	})
	return c
}

// set replaces what is spoilt from now on; nil: nothing.
func (f *faults) set(spoil func(*http.Request, func() (*http.Response, error)) (*http.Response, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spoil = spoil
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

var errNoRoute = errors.New("no route to the API server")

// bindsPod says whether a request binds a pod.
func bindsPod(r *http.Request, name string) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/pods/"+name+"/binding")
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	"k8s.io/client-go/rest"
)

// Faults intercepts calls from livesched to the API server and makes them fail or wait.
type Faults struct {
	mu    sync.Mutex // guards spoil
	spoil func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error)
}

// Config returns a client configuration whose calls go through the faults.
func (f *Faults) Config() *rest.Config {
	c := rest.CopyConfig(Cluster.Config)
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

// Set replaces the interceptor from now on. With nil, all calls pass.
func (f *Faults) Set(spoil func(*http.Request, func() (*http.Response, error)) (*http.Response, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spoil = spoil
}

// Hold blocks matching calls until letGo is called. reached is closed when the first such call has
// arrived.
func (f *Faults) Hold(which func(*http.Request) bool) (reached <-chan struct{}, letGo func()) {
	at, open := make(chan struct{}), make(chan struct{})
	var once sync.Once
	f.Set(func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		if which(r) {
			once.Do(func() { close(at) })
			select {
			case <-open:
			case <-r.Context().Done():
				return nil, context.Cause(r.Context())
			}
		}
		return send()
	})
	letGo = sync.OnceFunc(func() { close(open) })
	DeferCleanup(letGo)
	return at, letGo
}

// ErrNoRoute is the error of calls that do not reach the API server.
var ErrNoRoute = errors.New("no route to the API server")

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// BindsPod reports whether a request binds a pod.
func BindsPod(r *http.Request, name string) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/pods/"+name+"/binding")
}

// DeletesPod reports whether a request deletes a pod.
func DeletesPod(r *http.Request, name string) bool {
	return r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/pods/"+name)
}

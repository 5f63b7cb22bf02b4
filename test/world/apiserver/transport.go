// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// Transport is an http.RoundTripper that calls a handler. Any goroutine may use it.
type Transport struct{ Handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	reader, writer := io.Pipe()
	r := &response{ctx: ctx, header: http.Header{}, body: writer, started: make(chan struct{})}
	served := req.Clone(ctx)
	if served.Body == nil {
		served.Body = http.NoBody
	}
	served.RequestURI = req.URL.RequestURI()
	go func() {
		defer cancel()
		t.Handler.ServeHTTP(r, served)
		r.WriteHeader(http.StatusOK)
		_ = writer.Close()
	}()
	stop := context.AfterFunc(req.Context(), func() { _ = reader.CloseWithError(req.Context().Err()) })
	select {
	case <-r.started:
	case <-req.Context().Done():
		cancel()
		return nil, req.Context().Err()
	}
	return &http.Response{
		Status: fmt.Sprint(r.status, " ", http.StatusText(r.status)), StatusCode: r.status, Header: r.sent,
		Proto: "HTTP/2.0", ProtoMajor: 2, ContentLength: -1, Request: req,
		Body: &body{PipeReader: reader, cancel: func() { stop(); cancel() }},
	}, nil
}

// body is the body of a response. Closing it ends the handler's context.
type body struct {
	*io.PipeReader
	cancel func()
}

func (b *body) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}

// response implements http.ResponseWriter for a goroutine that serves.
type response struct {
	ctx     context.Context // of the handler
	header  http.Header
	body    *io.PipeWriter
	once    sync.Once
	started chan struct{}
	// status and sent can be read once started is closed.
	status int
	sent   http.Header
}

func (r *response) Header() http.Header { return r.header }

func (r *response) WriteHeader(status int) {
	r.once.Do(func() {
		r.status, r.sent = status, r.header.Clone()
		close(r.started)
	})
}

func (r *response) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(p)
}

// Flush implements http.Flusher.
func (r *response) Flush() { r.WriteHeader(http.StatusOK) }

// CloseNotify implements http.CloseNotifier. The API server's wrappers of writers hide Flush from
// watches without it.
func (r *response) CloseNotify() <-chan bool {
	closed := make(chan bool, 1)
	context.AfterFunc(r.ctx, func() { closed <- true })
	return closed
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/livesched/livesched/test/world/apiserver"
)

// network carries requests to the API server, and its answers. A request waits until the world
// delivers it, and so do its answer and each event of a watch. So the world decides about their
// order, and about what gets lost.
//
// Clients use it from their goroutines, the world from its own.
type network struct {
	server *apiserver.Transport

	mu sync.Mutex // guards the fields below
	// arrived are the requests that have come since the world looked last.
	arrived []*exchange
	// streams are the answers that have no end yet: those to watches.
	streams []*stream
	// wake has a value if something has arrived.
	wake chan struct{}
}

// process is one that sends requests. It implements http.RoundTripper.
type process struct {
	network *network
	name    string
	started time.Time
	// stalled is until when the process has no network, and stopping since when it ends by itself.
	// Only the world uses them.
	stalled, stopping time.Time

	mu sync.Mutex // guards the fields below
	// gone means that the process does not exist any more: its connections are closed.
	gone bool
	open []*exchange
}

// exchange is a request and its answer.
type exchange struct {
	from   *process
	req    *http.Request
	body   []byte
	answer chan answer // has room for one
	// sent is when the world has seen the request. Only the world uses it.
	sent time.Time
}

type answer struct {
	response *http.Response
	err      error
}

func (n *network) poke() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// connectionError is the error of a connection that has broken.
type connectionError string

func (e connectionError) Error() string   { return string(e) }
func (e connectionError) Timeout() bool   { return false }
func (e connectionError) Temporary() bool { return true }

const (
	errReset  connectionError = "read tcp: connection reset by peer"
	errClosed connectionError = "dial tcp: connection refused"
)

// RoundTrip implements http.RoundTripper.
func (c *process) RoundTrip(req *http.Request) (*http.Response, error) {
	x := &exchange{from: c, req: req, answer: make(chan answer, 1)}
	if req.Body != nil {
		var err error
		if x.body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		_ = req.Body.Close()
	}
	c.mu.Lock()
	if c.gone {
		c.mu.Unlock()
		return nil, errClosed
	}
	c.open = append(c.open, x)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.open = slices.DeleteFunc(c.open, func(other *exchange) bool { return other == x })
		c.mu.Unlock()
	}()

	n := c.network
	n.mu.Lock()
	n.arrived = append(n.arrived, x)
	n.mu.Unlock()
	n.poke()
	select {
	case a := <-x.answer:
		return a.response, a.err
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
}

// disconnect closes all connections of a process that has ended.
func (c *process) disconnect() {
	c.mu.Lock()
	c.gone = true
	open := c.open
	c.open = nil
	c.mu.Unlock()
	for _, x := range open {
		x.reply(answer{err: errReset})
	}
	for _, s := range c.network.streamsOf(c) {
		s.end(errReset)
	}
}

func (c *process) isGone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone
}

func (x *exchange) reply(a answer) {
	select {
	case x.answer <- a:
	default: // it has one
	}
}

// key orders exchanges that arrive at the same time.
func (x *exchange) key() string {
	return fmt.Sprintf("%s %s %s %s %s", x.from.name, x.req.Method, x.req.URL.RequestURI(), x.req.UserAgent(), x.body)
}

// String describes the request in a transcript.
func (x *exchange) String() string {
	return fmt.Sprintf("%s: %s %s", x.from.name, x.req.Method, x.req.URL.RequestURI())
}

func (x *exchange) isWatch() bool { return x.req.URL.Query().Get("watch") != "" }

func (x *exchange) isWrite() bool { return x.req.Method != http.MethodGet }

func (x *exchange) writesObject() bool { return x.isWrite() && x.req.Method != http.MethodDelete }

// take returns the exchanges that have arrived, in an order that does not depend on goroutines.
func (n *network) take() []*exchange {
	n.mu.Lock()
	arrived := n.arrived
	n.arrived = nil
	n.mu.Unlock()
	slices.SortStableFunc(arrived, func(a, b *exchange) int { return strings.Compare(a.key(), b.key()) })
	return arrived
}

// execute sends a request to the API server. The answer to a watch is a stream.
func (n *network) execute(x *exchange) (answer, *stream) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(x.req.Context()))
	req := x.req.Clone(ctx)
	req.Body = io.NopCloser(bytes.NewReader(x.body))
	response, err := n.server.RoundTrip(req)
	if err != nil {
		cancel()
		return answer{err: err}, nil
	}
	if x.isWatch() && response.StatusCode == http.StatusOK {
		s := newStream(n, x, response, cancel)
		response.Body = s.reader()
		return answer{response: response}, s
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	cancel()
	response.Body = io.NopCloser(bytes.NewReader(body))
	return answer{response, err}, nil
}

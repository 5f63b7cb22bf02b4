// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	certutil "k8s.io/client-go/util/cert"
)

// network is a listener whose connections are pipes in memory, for tests with synctest. Any
// goroutine dials.
type network struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
	stop     context.CancelFunc // ends the server
}

func newNetwork() *network {
	return &network{accepted: make(chan net.Conn), closed: make(chan struct{})}
}

func (n *network) Accept() (net.Conn, error) {
	select {
	case conn := <-n.accepted:
		return conn, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

func (n *network) Close() error   { n.once.Do(func() { close(n.closed) }); return nil }
func (n *network) Addr() net.Addr { return &net.TCPAddr{} }

// dial connects from an address, which the test closes at its end.
func (n *network) dial(t *testing.T, from string) net.Conn {
	t.Helper()
	client, server := net.Pipe()
	t.Cleanup(func() { _ = client.Close() })
	n.accepted <- &remote{server, net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 1))}
	return client
}

// remote is a connection with the address of its peer.
type remote struct {
	net.Conn
	peer net.Addr
}

func (r *remote) RemoteAddr() net.Addr { return r.peer }

// identity is a certificate of the server, its authority, and a time at which it is valid. The
// clocks of tests with synctest differ from it.
type identity struct {
	pair  tls.Certificate
	roots *x509.CertPool
	at    time.Time
}

var newIdentity = sync.OnceValue(func() identity {
	certificate, key, err := certutil.GenerateSelfSignedCertKey("webhook", nil, nil)
	if err != nil {
		panic(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		panic(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	return identity{pair: pair, roots: roots, at: time.Now()}
})

// start serves a handler in memory until the end of the test. It returns the configuration of
// clients.
func start(t *testing.T, handler http.Handler) (*network, *tls.Config) {
	t.Helper()
	server := newIdentity()
	listener := newNetwork()
	ctx, cancel := context.WithCancel(t.Context())
	listener.stop = cancel
	ended := make(chan error)
	go func() {
		ended <- serve(ctx, listener, handler, &tls.Config{Certificates: []tls.Certificate{server.pair}})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return listener, &tls.Config{RootCAs: server.roots, ServerName: "webhook",
		Time: func() time.Time { return server.at }}
}

// ask makes a request on a new connection.
func ask(t *testing.T, n *network, from string, config *tls.Config) (string, error) {
	t.Helper()
	conn := tls.Client(n.dial(t, from), config)
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: webhook\r\n\r\n"); err != nil {
		return "", err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

// serving counts the goroutines that serve a connection.
func serving() int {
	stacks := make([]byte, 64<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "net/http.(*conn).serve(")
}

func TestAFloodDisplacesOnlyItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, config := start(t, http.HandlerFunc(hello))
		began := time.Now()
		for i := range 20 * maxConnections {
			n.dial(t, "10.0.0.66") // and says nothing
			if i%100 == 0 {
				if text, err := ask(t, n, "10.0.0.1", config); text != "hello" {
					t.Fatalf("after %d connections: %q, %v", i, text, err)
				}
				synctest.Wait() // its connection is closed, and the next one takes its place
			}
		}
		synctest.Wait()
		if got := serving(); got > maxConnections || got < maxConnections-1 {
			t.Errorf("%d connections are served, want %d", got, maxConnections)
		}
		for range 2 * maxConnections {
			if text, err := ask(t, n, "10.0.0.1", config); text != "hello" {
				t.Fatalf("in the flood: %q, %v", text, err)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("honest requests waited %v", took)
		}
	})
}

func TestManySourcesShareTheConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, config := start(t, http.HandlerFunc(hello))
		for i := range 10 * maxConnections {
			n.dial(t, fmt.Sprintf("10.0.1.%d", i%(maxConnections/2)))
		}
		if text, err := ask(t, n, "10.0.0.1", config); text != "hello" {
			t.Errorf("%q, %v", text, err)
		}
	})
}

func TestConnectionsThatAreSlowEnd(t *testing.T) {
	for name, talk := range map[string]func(*testing.T, net.Conn, *tls.Config) net.Conn{
		"before the handshake": func(_ *testing.T, conn net.Conn, _ *tls.Config) net.Conn { return conn },
		"in the headers":       sends("POST / HTTP/1.1\r\nHost: webhook\r\nX-Slow: "),
		"in the body":          sends("POST / HTTP/1.1\r\nHost: webhook\r\nContent-Length: 100\r\n\r\n{"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, config := start(t, (&Validator{}).Handler())
				conn := talk(t, n.dial(t, "10.0.0.66"), config)
				began := time.Now()
				_, _ = io.Copy(io.Discard, conn) // until the server closes it
				if took := time.Since(began); took > readTimeout {
					t.Errorf("the connection ended after %v", took)
				}
			})
		})
	}
}

// sends returns a function that makes the handshake and sends a part of a request.
func sends(part string) func(*testing.T, net.Conn, *tls.Config) net.Conn {
	return func(t *testing.T, raw net.Conn, config *tls.Config) net.Conn {
		t.Helper()
		conn := tls.Client(raw, config)
		if _, err := io.WriteString(conn, part); err != nil {
			t.Fatal(err)
		}
		return conn
	}
}

func TestRequestsInProgressEndWithTheirResponses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stop func()
		n, config := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			stop()
			synctest.Wait() // the server is stopping
			if r.Context().Err() == nil {
				hello(w, r)
			}
		}))
		stop = n.stop
		if text, err := ask(t, n, "10.0.0.1", config); text != "hello" {
			t.Errorf("%q, %v", text, err)
		}
	})
}

func TestServeReportsThatItFailed(t *testing.T) {
	n := newNetwork()
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if err := serve(t.Context(), n, http.HandlerFunc(hello), &tls.Config{}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v, want an error", err)
	}
}

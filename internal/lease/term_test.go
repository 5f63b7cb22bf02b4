// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

func TestATermEndsWithTheRenewDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // sleeps are on its clock, which takes no time
		term := NewTerm(renewDeadline)
		expect := func(what string, want error) {
			t.Helper()
			if err := term.Check(); !errors.Is(err, want) {
				t.Errorf("%s: %v", what, err)
			}
		}
		time.Sleep(time.Hour)
		expect("before it begins", nil)
		term.Renew(time.Now())
		time.Sleep(renewDeadline - time.Millisecond)
		expect("just before its end", nil)
		time.Sleep(time.Millisecond)
		expect("at its end", ErrOver)
		term.Renew(time.Now().Add(-renewDeadline))
		expect("after a renewal that took too long", ErrOver)
		term.Renew(time.Now())
		expect("after a renewal", nil)
		term.End()
		expect("when the lease is lost", ErrOver)
		term.Renew(time.Now())
		expect("whatever happens then", ErrOver)
	})
}

func TestThereIsNoEndWithoutLeaderElection(t *testing.T) {
	var none *Term
	if err := none.Check(); err != nil {
		t.Error(err)
	}
}

func TestAGuardSendsNoChangesAfterTheTerm(t *testing.T) {
	received := ""
	server := httptest.NewServer(
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { received += r.Method + " " }))
	defer server.Close()
	term := NewTerm(time.Hour)
	config := &rest.Config{Host: server.URL}
	config.Wrap(term.Guard)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	send := func(method string) error {
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL, strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(request)
		if err == nil {
			err = answer.Body.Close()
		}
		return err
	}
	changes := []string{http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete}
	for _, method := range changes {
		if err := send(method); err != nil {
			t.Error(err)
		}
	}
	term.Renew(time.Now())
	term.End()
	for _, method := range changes {
		if err := send(method); !errors.Is(err, ErrOver) {
			t.Errorf("%s: %v", method, err)
		}
	}
	if err := send(http.MethodGet); err != nil {
		t.Error(err)
	}
	if want := "POST PATCH PUT DELETE GET "; received != want {
		t.Errorf("the server got %s", received)
	}
}

// The term may end while a request waits for its connection: the process may be stopped there.
func TestAGuardSendsNoChangeIfTheTermEndsBeforeThereIsAConnection(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(protocol, func(t *testing.T) {
			var received atomic.Int32
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if _, err := io.ReadAll(r.Body); err == nil && r.Proto == protocol {
					received.Add(1)
				}
			}))
			server.EnableHTTP2 = protocol == "HTTP/2.0"
			server.StartTLS()
			defer server.Close()
			send := func(over bool) error {
				term := NewTerm(time.Hour)
				term.Renew(time.Now())
				transport := server.Client().Transport.(*http.Transport).Clone() // without a connection
				defer transport.CloseIdleConnections()
				transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
					if over {
						term.End()
					}
					return (&net.Dialer{}).DialContext(ctx, network, address)
				}
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL,
					strings.NewReader("body"))
				if err != nil {
					t.Fatal(err)
				}
				response, err := term.Guard(transport).RoundTrip(request)
				if err == nil {
					err = response.Body.Close()
				}
				return err
			}
			if err := send(false); err != nil {
				t.Error(err)
			}
			if err := send(true); !errors.Is(err, ErrOver) {
				t.Error(err)
			}
			server.Close()
			if got := received.Load(); got != 1 {
				t.Errorf("the server got %d requests", got)
			}
		})
	}
}

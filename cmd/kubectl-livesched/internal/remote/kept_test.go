// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/livesched/livesched/internal/replicas"
	"github.com/livesched/livesched/internal/secureserving"
)

// dialed counts the connections to a livesched.
func dialed(t *testing.T, at *livesched) (replicas.Trust, *atomic.Int32) {
	t.Helper()
	only, count := trusted(t, at, at), &atomic.Int32{}
	dial := only.Dial
	only.Dial = func(ctx context.Context) (net.Conn, error) { count.Add(1); return dial(ctx) }
	return only, count
}

func TestConnectionsAreKept(t *testing.T) {
	server := newLivesched(t, func(w http.ResponseWriter, _ *http.Request) {
		secureserving.WriteObject(w, map[string]string{"kind": "QueueList"})
	})
	for _, test := range []struct {
		name string
		kept *Kept
		// On a busy machine, net/http may close a connection before it has noted that a request was
		// sent.
		least, most int32
	}{{"not at all", nil, 10, 10}, {"by Kept", &Kept{}, 1, 4}} {
		t.Run(test.name, func(t *testing.T) {
			only, count := dialed(t, server)
			l := &Livesched{Config: apiServer(), Kept: test.kept}
			for range 10 {
				if _, err := l.send(t.Context(), "https://livesched", only, "livesched-0",
					question{resource: "queues"}); err != nil {
					t.Fatal(err)
				}
			}
			if got := count.Load(); got < test.least || got > test.most {
				t.Errorf("%d connections, want %d to %d", got, test.least, test.most)
			}
			if test.kept != nil {
				test.kept.Close()
			}
		})
	}
}

func TestAReplicaThatFailsIsLookedUpAgain(t *testing.T) {
	server := newLivesched(t, func(http.ResponseWriter, *http.Request) {})
	only, _ := dialed(t, server)
	kept := &Kept{}
	kept.keep([]replicas.Replica{{Pod: "livesched-0"}})
	if got := kept.known(); len(got) != 1 {
		t.Fatalf("knows %v", got)
	}
	l := &Livesched{Config: apiServer(), Kept: kept}
	server.Close()
	_, err := l.send(t.Context(), "https://livesched", only, "livesched-0", question{resource: "queues"})
	if !tryNext(err) {
		t.Fatalf("error %v", err)
	}
	if len(kept.known()) > 0 || len(kept.clients) > 0 {
		t.Error("the replica is kept")
	}
}

// A certificate that another process has is not that of a kept connection.
func TestAKeptConnectionIsForOneCertificate(t *testing.T) {
	kept := &Kept{}
	first, second := newLivesched(t, nil), newLivesched(t, nil)
	create := func() (*http.Client, error) { return &http.Client{Transport: &http.Transport{}}, nil }
	clients := map[*http.Client]bool{}
	for _, at := range []*livesched{first, second, first} {
		only := trusted(t, at, at)
		client, _, err := kept.client("livesched-0", &only, create)
		if err != nil {
			t.Fatal(err)
		}
		clients[client] = true
	}
	if len(clients) != 2 {
		t.Errorf("%d clients for two certificates", len(clients))
	}
}

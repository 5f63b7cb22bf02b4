// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"net/http"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/livesched/livesched/internal/replicas"
)

// keptFor is how long replicas are kept: a new leader is asked that much later.
const keptFor = 10 * time.Second

// Kept keeps replicas and connections between requests, for a program that asks again and again.
// Any goroutine may use it. Its zero value is ready.
type Kept struct {
	mu sync.Mutex // guards the fields below
	// replicas are nil if they must be looked up.
	replicas []replicas.Replica
	found    time.Time
	// clients are by the text that names the other side, and what verifies it.
	clients map[[2]string]*http.Client
}

// known returns the replicas that were found lately, nil if there are none.
func (k *Kept) known() []replicas.Replica {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.found) > keptFor {
		k.replicas = nil
	}
	return k.replicas
}

// keep keeps replicas.
func (k *Kept) keep(found []replicas.Replica) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.replicas, k.found = found, time.Now()
}

// client returns a client that is kept, or a new one. done must be called after the request, with
// its error: the connections of a client that is not kept, or that has failed, are closed.
func (k *Kept) client(from string, trust *replicas.Trust, create func() (*http.Client, error)) (_ *http.Client,
	done func(error), _ error) {
	if k == nil {
		client, err := create()
		if err != nil {
			return nil, nil, err
		}
		return client, func(error) { utilnet.CloseIdleConnectionsFor(client.Transport) }, nil
	}
	key := [2]string{from, string(trust.Authorities)}
	k.mu.Lock()
	defer k.mu.Unlock()
	client := k.clients[key]
	if client == nil {
		var err error
		if client, err = create(); err != nil {
			return nil, nil, err
		}
		if k.clients == nil {
			k.clients = map[[2]string]*http.Client{}
		}
		k.clients[key] = client
	}
	return client, func(err error) {
		if err != nil && tryNext(err) {
			k.forget(key)
		}
	}, nil
}

// forget looks up replicas again, and connects again to one.
func (k *Kept) forget(key [2]string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.replicas = nil
	if client := k.clients[key]; client != nil {
		utilnet.CloseIdleConnectionsFor(client.Transport)
		delete(k.clients, key)
	}
}

// Close closes all connections. No request may be under way.
func (k *Kept) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, client := range k.clients {
		utilnet.CloseIdleConnectionsFor(client.Transport)
	}
	k.clients, k.replicas = nil, nil
}

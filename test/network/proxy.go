// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package network puts a TCP proxy between livesched and the API server, whose connections a test
// can slow down, freeze and cut. The proxy is toxiproxy, in the test's process.
package network

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
	"k8s.io/client-go/tools/clientcmd"
)

// Parts of toxiproxy log to zerolog's global logger, which writes to standard error.
func init() { zerolog.SetGlobalLevel(zerolog.Disabled) }

// Proxy passes connections on to an upstream address. Its methods may be called from any goroutine.
type Proxy struct {
	proxy   *toxiproxy.Proxy
	address string

	mu      sync.Mutex // held by each method that changes proxy; guards what follows
	cut     bool
	stopped bool
}

// NewProxy starts a proxy on a free loopback port, until Stop. upstream is host:port.
func NewProxy(upstream string) (*Proxy, error) {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	proxy := toxiproxy.NewProxy(server, upstream, "127.0.0.1:0", upstream)
	if err := proxy.Start(); err != nil {
		return nil, fmt.Errorf("starting a proxy for %s: %w", upstream, err)
	}
	return &Proxy{proxy: proxy, address: proxy.Listen}, nil
}

// Address returns host:port of the proxy, which never changes.
func (p *Proxy) Address() string { return p.address }

// Stop ends the proxy and its connections for good.
func (p *Proxy) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	p.proxy.Stop()
}

// Cut ends all connections, and refuses new ones until Mend.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	p.proxy.Stop()
}

// Mend ends what Cut and the other methods have begun. Connections that were frozen end.
func (p *Proxy) Mend() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.proxy.Toxics.ResetToxics(context.Background())
	if !p.cut || p.stopped {
		return nil
	}
	p.cut = false
	return p.proxy.Start()
}

// Freeze keeps all connections open, also new ones, and drops everything that they carry.
func (p *Proxy) Freeze() error {
	if err := p.add("timeout", "upstream", map[string]any{"timeout": 0}); err != nil {
		return err
	}
	return p.add("timeout", "downstream", map[string]any{"timeout": 0})
}

// Delay makes responses and events later, each by another time between nothing and twice the delay.
func (p *Proxy) Delay(by time.Duration) error {
	return p.add("latency", "downstream", map[string]any{"latency": by.Milliseconds(), "jitter": by.Milliseconds()})
}

// Narrow limits what the API server sends to an amount of KiB per second.
func (p *Proxy) Narrow(rate int) error {
	return p.add("bandwidth", "downstream", map[string]any{"rate": rate})
}

// Reset breaks each connection after a time, without the responses that are under way.
func (p *Proxy) Reset(after time.Duration) error {
	return p.add("reset_peer", "downstream", map[string]any{"timeout": after.Milliseconds()})
}

func (p *Proxy) add(kind, stream string, attributes map[string]any) error {
	text, err := json.Marshal(map[string]any{"type": kind, "stream": stream, "attributes": attributes})
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := p.proxy.Toxics.AddToxicJson(bytes.NewReader(text)); err != nil {
		return fmt.Errorf("adding %s to a proxy: %w", text, err)
	}
	return nil
}

// Kubeconfig writes a copy of a kubeconfig file with the address of the proxy.
func (p *Proxy) Kubeconfig(of, file string) error {
	config, err := clientcmd.LoadFromFile(of)
	if err != nil {
		return err
	}
	for _, cluster := range config.Clusters {
		cluster.Server = (&url.URL{Scheme: "https", Host: p.Address()}).String()
	}
	return clientcmd.WriteToFile(*config, file)
}

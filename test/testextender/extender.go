// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package testextender

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Options configures an extender.
type Options struct {
	// Client binds pods.
	Client client.Client
	// TLS is the configuration of a TLS server. The default is plain HTTP.
	TLS *tls.Config
	// Log receives errors of connections. Required.
	Log io.Writer
}

// Extender is a started extender.
type Extender struct {
	// URL is the prefix of the verbs. It stays the same when the extender is started again.
	URL string

	options Options
	address string
	server  *server
}

// Start starts an extender, which accepts requests when Start returns.
func Start(o Options) (*Extender, error) {
	e := &Extender{options: o, address: "127.0.0.1:0"}
	if err := e.Restart(); err != nil {
		return nil, err
	}
	e.URL = "http://" + e.address + "/scheduler"
	if o.TLS != nil {
		e.URL = "https://" + e.address + "/scheduler"
	}
	return e, nil
}

// Restart starts the extender again after it has ended, at the same address and without a script.
func (e *Extender) Restart() error {
	listener, err := net.Listen("tcp", e.address)
	if err != nil {
		return err
	}
	e.address = listener.Addr().String()
	s := &server{client: e.options.Client, done: make(chan struct{})}
	s.http = &http.Server{Handler: s, TLSConfig: e.options.TLS,
		ErrorLog: log.New(e.options.Log, "extender "+e.address+": ", 0)}
	e.server = s
	go func() {
		defer close(s.done)
		// Serving ends with an error in any case, and Done reports the end.
		if e.options.TLS == nil {
			_ = s.http.Serve(listener)
		} else {
			_ = s.http.ServeTLS(listener, "", "")
		}
	}()
	return nil
}

// Stop closes the extender's port and all its connections. It may be called again.
func (e *Extender) Stop() error {
	err := e.server.http.Close()
	<-e.server.done
	return err
}

// Done is closed when the extender has ended, by Stop or by the fault Dead.
func (e *Extender) Done() <-chan struct{} { return e.server.done }

// Perform sets the responses of the extender from now on.
func (e *Extender) Perform(script Script) { e.server.perform(script) }

// Calls returns the calls since the last time.
func (e *Extender) Calls() []Call { return e.server.take() }

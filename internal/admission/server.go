// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// The limits of the server. API servers send few requests, which are small and arrive at once.
const (
	maxConnections = 64
	readTimeout    = 5 * time.Second // also for the TLS handshake; the API server gives up after that
	writeTimeout   = 10 * time.Second
	idleTimeout    = 90 * time.Second // client-go's
	maxHeader      = 16 << 10
	// stopTimeout is less than the time that the manager waits for its parts.
	stopTimeout = 5 * time.Second
	// quiet is the time between lines of the log about failed requests, which anybody can cause.
	quiet = 10 * time.Second
)

// Serve serves the webhook over TLS until ctx ends, or until it fails. Requests in progress when
// ctx ends get their responses.
func Serve(ctx context.Context, address string, handler http.Handler, config *tls.Config) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return serve(ctx, listener, handler, config)
}

func serve(ctx context.Context, listener net.Listener, handler http.Handler, config *tls.Config) error {
	config = config.Clone()
	// A connection has one request at a time, so that the limit of connections limits requests.
	config.NextProtos = []string{"http/1.1"}
	server := &http.Server{
		Handler:           handler,
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader,
		ErrorLog: stdlog.New(&connectionErrors{logger: log.FromContext(ctx),
			sometimes: rate.Sometimes{Interval: quiet}}, "", 0),
	}
	stopped := make(chan struct{})
	end := context.AfterFunc(ctx, func() {
		defer close(stopped)
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if err := server.Shutdown(stop); err != nil {
			_ = server.Close() // what has not ended by now is cut
		}
	})
	err := server.Serve(tls.NewListener(newFairListener(listener, maxConnections), config))
	if end() { // ctx has not ended: the server failed
		return errors.Join(err, server.Close())
	}
	<-stopped
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}

// connectionErrors logs errors of connections, such as failed handshakes, but not all of them. Any
// goroutine calls it.
type connectionErrors struct {
	logger    logr.Logger
	sometimes rate.Sometimes
}

func (c *connectionErrors) Write(line []byte) (int, error) {
	c.sometimes.Do(func() {
		c.logger.Info("A connection to the webhook failed; further failures are not logged for a while", "error",
			string(bytes.TrimSpace(line)), "while", quiet)
	})
	return len(line), nil
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// forward connects to a port of a pod as `kubectl port-forward` does, but without a local port that
// other users of the machine could use.
func (l *Livesched) forward(ctx context.Context, pod string, port int32) (net.Conn, error) {
	client, err := kubernetes.NewForConfig(l.Config)
	if err != nil {
		return nil, err
	}
	at := client.CoreV1().RESTClient().Post().Namespace(l.Namespace).Resource("pods").Name(pod).
		SubResource("portforward").URL()
	dialer, err := newDialer(l.Config, at)
	if err != nil {
		return nil, err
	}
	c, err := openStream(ctx, dialer, port)
	if apierrors.IsForbidden(err) {
		return nil, l.looking(err)
	}
	if err != nil {
		return nil, fmt.Errorf("forwarding port %d: %w", port, err)
	}
	return c, nil
}

// newDialer returns a dialer for WebSockets, and for SPDY if they are refused.
func newDialer(config *rest.Config, at *url.URL) (httpstream.Dialer, error) {
	webSocket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(at, config)
	if err != nil {
		return nil, err
	}
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	old := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, at)
	return &dialers{webSocket: webSocket, old: old}, nil
}

// dialers tries WebSockets, and then SPDY: an API server or a proxy may not have WebSockets, and a
// role may permit only to create pods/portforward, which WebSockets also get.
type dialers struct{ webSocket, old httpstream.Dialer }

// Dial implements httpstream.Dialer. If both fail, it returns the error of WebSockets, which has
// the Status of the API server.
func (d *dialers) Dial(protocols ...string) (httpstream.Connection, string, error) {
	connection, protocol, err := d.webSocket.Dial(protocols...)
	if !httpstream.IsUpgradeFailure(err) && !httpstream.IsHTTPSProxyError(err) {
		return connection, protocol, err
	}
	var refused *httpstream.UpgradeFailureError
	var status *apierrors.StatusError
	connection, protocol, oldErr := d.old.Dial(protocols...)
	if oldErr != nil && errors.As(err, &refused) && errors.As(refused.Cause, &status) {
		return nil, "", status
	}
	return connection, protocol, oldErr
}

// openStream connects to a port through a connection of its own.
func openStream(ctx context.Context, dialer httpstream.Dialer, port int32) (net.Conn, error) {
	type result struct {
		c   httpstream.Connection
		err error
	}
	dialed := make(chan result) // the dialer knows no context
	go func() {
		c, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
		select {
		case dialed <- result{c, err}:
		case <-ctx.Done():
			if err == nil {
				_ = c.Close()
			}
		}
	}()
	select {
	case r := <-dialed:
		if r.err != nil {
			return nil, r.err
		}
		return newStream(r.c, port)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// stream is a net.Conn on top of the two streams of a forwarded port. As any net.Conn, it may be
// used by several goroutines at the same time; the fields do not change.
type stream struct {
	httpstream.Stream // the data
	connection        httpstream.Connection
	// failed gets the message of the other side about a failure. It is closed when no message can
	// follow.
	failed chan error
}

func newStream(connection httpstream.Connection, port int32) (net.Conn, error) {
	header := http.Header{}
	header.Set(corev1.PortHeader, strconv.Itoa(int(port)))
	header.Set(corev1.PortForwardRequestIDHeader, "0")
	header.Set(corev1.StreamType, corev1.StreamTypeError)
	failures, err := connection.CreateStream(header)
	if err != nil {
		_ = connection.Close()
		return nil, err
	}
	_ = failures.Close() // nothing is written to it
	header = header.Clone()
	header.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := connection.CreateStream(header)
	if err != nil {
		_ = connection.Close()
		return nil, err
	}
	s := &stream{Stream: data, connection: connection, failed: make(chan error, 1)}
	go func() {
		defer close(s.failed)
		if text, err := io.ReadAll(failures); err == nil && len(text) > 0 {
			s.failed <- errors.New(string(text))
		}
	}()
	return s, nil
}

// Read implements io.Reader. If the port could not be forwarded, the error has the reason.
func (s *stream) Read(to []byte) (int, error) {
	n, err := s.Stream.Read(to)
	return n, s.because(err)
}

// Write implements io.Writer. If the port could not be forwarded, the error has the reason.
func (s *stream) Write(from []byte) (int, error) {
	n, err := s.Stream.Write(from)
	return n, s.because(err)
}

// because returns the message of the other side about an error, if there is one.
func (s *stream) because(err error) error {
	if err == nil {
		return nil
	}
	select {
	case failure, ok := <-s.failed:
		if ok {
			return failure
		}
	case <-time.After(time.Second): // the stream of failures stays open
	}
	return err
}

// Close closes the connection, too, which has no other streams.
func (s *stream) Close() error { return s.connection.Close() }

// forwarded implements net.Addr. Its value is not used.
type forwarded struct{}

func (forwarded) Network() string { return "portforward" }
func (forwarded) String() string  { return "portforward" }

func (s *stream) LocalAddr() net.Addr  { return forwarded{} }
func (s *stream) RemoteAddr() net.Addr { return forwarded{} }

// The context of a request ends it: streams have no deadlines.

func (s *stream) SetDeadline(time.Time) error      { return nil }
func (s *stream) SetReadDeadline(time.Time) error  { return nil }
func (s *stream) SetWriteDeadline(time.Time) error { return nil }

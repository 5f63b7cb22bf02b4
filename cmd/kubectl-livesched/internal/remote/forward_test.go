// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/streaming/pkg/httpstream"
)

var pods = corev1.Resource("pods")

func writeStatus(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(&status)
}

// pod is the other side of a forwarded port: a kubelet that connects to an address, or fails.
type pod struct {
	address, failure string
	closed           chan bool // closed with the connection
	once             sync.Once
}

func (p *pod) Dial(...string) (httpstream.Connection, string, error) { return p, "", nil }
func (p *pod) CloseChan() <-chan bool                                { return p.closed }
func (p *pod) SetIdleTimeout(time.Duration)                          {}
func (p *pod) RemoveStreams(...httpstream.Stream)                    {}

func (p *pod) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pod) CreateStream(header http.Header) (httpstream.Stream, error) {
	near, far := net.Pipe()
	switch {
	case header.Get(corev1.PortHeader) != "10259":
		return nil, errors.New("another port")
	case header.Get(corev1.StreamType) == corev1.StreamTypeError:
		go func() {
			if p.failure == "" {
				<-p.closed
			} else {
				_, _ = io.WriteString(far, p.failure)
			}
			_ = far.Close()
		}()
	case p.failure != "":
		_ = far.Close()
	default:
		server, err := net.Dial("tcp", p.address)
		if err != nil {
			return nil, err
		}
		go func() { _, _ = io.Copy(far, server); _ = far.Close() }()
		go func() { _, _ = io.Copy(server, far) }()
		go func() { <-p.closed; _ = server.Close(); _ = far.Close() }()
	}
	return podStream{near, header.Get(corev1.StreamType)}, nil
}

type podStream struct {
	net.Conn
	kind string
}

// Close closes the writing side only, as that of a stream does.
func (s podStream) Close() error       { return nil }
func (s podStream) Reset() error       { return s.Conn.Close() }
func (podStream) Headers() http.Header { return nil }
func (podStream) Identifier() uint32   { return 0 }

func TestARequestPassesAForwardedPort(t *testing.T) {
	l := newLivesched(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `"`+strings.Repeat("x", 1<<20)+`"`)
	})
	kubelet := &pod{address: l.Listener.Addr().String(), closed: make(chan bool)}
	way := trusted(t, l, l)
	way.Dial = func(ctx context.Context) (net.Conn, error) { return openStream(ctx, kubelet, 10259) }
	if text, err := ask(t, way); err != nil || len(text) != 1<<20+2 {
		t.Errorf("got %d bytes, %v", len(text), err)
	}
	<-kubelet.closed // the connection ends with the request
}

func TestAPortThatCannotBeForwardedSaysWhy(t *testing.T) {
	l := newLivesched(t, func(http.ResponseWriter, *http.Request) {})
	kubelet := &pod{failure: "dial tcp 127.0.0.1:10259: connection refused", closed: make(chan bool)}
	way := trusted(t, l, l)
	way.Dial = func(ctx context.Context) (net.Conn, error) { return openStream(ctx, kubelet, 10259) }
	if _, err := ask(t, way); err == nil || err.Error() != "livesched-0 cannot be reached: "+kubelet.failure {
		t.Errorf("got %v", err)
	}
}

// hanging is a dialer that answers when it is told to.
type hanging struct {
	answer chan struct{}
	pod    *pod
}

func (h *hanging) Dial(...string) (httpstream.Connection, string, error) {
	<-h.answer
	return h.pod, "", nil
}

func TestAHangingAPIServerDoesNotHangTheCommand(t *testing.T) {
	h := &hanging{answer: make(chan struct{}), pod: &pod{closed: make(chan bool)}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := openStream(ctx, h, 10259); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(h.answer)
	<-h.pod.closed // a connection that comes late is closed
}

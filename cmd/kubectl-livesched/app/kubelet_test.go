// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/cri-streaming/pkg/streaming/portforward"

	"github.com/livesched/livesched/test/objects"
)

// startKubelet runs the part of a kubelet that forwards ports, for the rest of a spec, and creates
// its node. Its pods share the network of this machine.
func startKubelet(ctx context.Context, node string) {
	GinkgoHelper()
	// The server code of real kubelets serves the API server's requests.
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		portforward.ServePortForward(w, r, loopback{}, "", "", nil, time.Minute, time.Minute,
			portforward.SupportedProtocols)
	}))
	DeferCleanup(server.Close)
	host, text, err := net.SplitHostPort(server.Listener.Addr().String())
	Expect(err).NotTo(HaveOccurred())
	port, err := strconv.ParseInt(text, 10, 32)
	Expect(err).NotTo(HaveOccurred())
	n := objects.Node(node, "4", "16Gi", nil)
	create(ctx, n)
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}}
	n.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(port)
	Expect(k8s.Status().Update(ctx, n)).To(Succeed())
}

// loopback forwards ports of pods to those of this machine.
type loopback struct{}

func (loopback) PortForward(ctx context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	defer stream.Close()
	server, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }()
	done := make(chan struct{}, 2)
	for _, way := range []struct {
		to   io.Writer
		from io.Reader
	}{{server, stream}, {stream, server}} {
		go func() {
			_, _ = io.Copy(way.to, way.from)
			done <- struct{}{}
		}()
	}
	<-done
	return nil
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"
)

// proxy stands between livesched and the API server, and can freeze: connections stay open and nothing goes through.
type proxy struct {
	listener net.Listener
	target   string

	frozen   chan struct{} // closed by freeze
	accepted chan struct{} // has an item once a connection was made
}

// newProxy starts a proxy that ends with the spec. Without a target it is frozen from the beginning.
func newProxy(target string) *proxy {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	p := &proxy{listener: listener, target: target, frozen: make(chan struct{}), accepted: make(chan struct{}, 1)}
	if target == "" {
		close(p.frozen)
	}
	done := make(chan struct{})
	var connections sync.WaitGroup
	connections.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed
			}
			select {
			case p.accepted <- struct{}{}:
			default:
			}
			connections.Go(func() { p.serve(conn, done) })
		}
	})
	DeferCleanup(func() {
		close(done)
		Expect(listener.Close()).To(Succeed())
		connections.Wait()
	})
	return p
}

func (p *proxy) freeze() { close(p.frozen) }

// kubeconfig is one for the proxy in the place of the API server.
func (p *proxy) kubeconfig(of string) string {
	GinkgoHelper()
	config, err := clientcmd.LoadFromFile(of)
	Expect(err).NotTo(HaveOccurred())
	for _, cluster := range config.Clusters {
		cluster.Server = (&url.URL{Scheme: "https", Host: p.listener.Addr().String()}).String()
	}
	file := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(clientcmd.WriteToFile(*config, file)).To(Succeed())
	Expect(os.Chmod(file, 0o600)).To(Succeed())
	return file
}

// serve holds a connection until either side closes it or the spec is done.
func (p *proxy) serve(conn net.Conn, done <-chan struct{}) {
	defer func() { _ = conn.Close() }() // the process at the other end may be gone
	select {
	case <-p.frozen:
		<-done
		return
	default:
	}
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	over := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{conn, server}, {server, conn}} {
		go func() {
			defer func() { over <- struct{}{} }()
			p.copy(way[0], way[1], done)
		}()
	}
	select {
	case <-over:
	case <-done:
	}
}

// copy passes on what comes until the proxy freezes.
func (p *proxy) copy(to io.Writer, from io.Reader, done <-chan struct{}) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		select {
		case <-p.frozen:
			<-done
			return
		default:
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

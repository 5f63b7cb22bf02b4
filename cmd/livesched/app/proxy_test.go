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
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// proxy connects livesched with the API server. While it is frozen, connections stay open but carry
// no data. While it is cut, open and new connections end.
type proxy struct {
	listener net.Listener
	target   string

	frozen   chan struct{} // closed by freeze
	accepted chan struct{} // receives an item after a connection was made
	refused  atomic.Int32  // connections while it is cut

	mu   sync.Mutex    // guards down
	down chan struct{} // closed while it is cut
}

// newProxy starts a proxy that ends with the spec. Without a target, it is frozen from the start.
func newProxy(target string) *proxy {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	p := &proxy{listener: listener, target: target, frozen: make(chan struct{}), accepted: make(chan struct{}, 1), down: make(chan struct{})}
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

func (p *proxy) cut() { close(p.isDown()) }

func (p *proxy) mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = make(chan struct{})
}

func (p *proxy) isDown() chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.down
}

// kubeconfig returns a kubeconfig file with the address of the proxy.
func (p *proxy) kubeconfig(of string) string {
	GinkgoHelper()
	return kubeconfigFor(of, p.listener.Addr().String())
}

// kubeconfigFor returns a copy of a kubeconfig file with another address.
func kubeconfigFor(of, address string) string {
	GinkgoHelper()
	return changedKubeconfig(of, func(config *clientcmdapi.Config) {
		for _, cluster := range config.Clusters {
			cluster.Server = (&url.URL{Scheme: "https", Host: address}).String()
		}
	})
}

// unknownUser returns a kubeconfig file with credentials that the API server does not know.
func unknownUser() string {
	GinkgoHelper()
	return changedKubeconfig(cluster.Kubeconfig(), func(config *clientcmdapi.Config) {
		for name := range config.AuthInfos {
			config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: "nobody"}
		}
	})
}

func changedKubeconfig(of string, change func(*clientcmdapi.Config)) string {
	GinkgoHelper()
	config, err := clientcmd.LoadFromFile(of)
	Expect(err).NotTo(HaveOccurred())
	change(config)
	file := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(clientcmd.WriteToFile(*config, file)).To(Succeed())
	Expect(os.Chmod(file, 0o600)).To(Succeed())
	return file
}

// serve handles a connection until either side closes it or the spec ends.
func (p *proxy) serve(conn net.Conn, done <-chan struct{}) {
	defer func() { _ = conn.Close() }() // the process at the other end may have ended
	select {
	case <-p.frozen:
		<-done
		return
	default:
	}
	down := p.isDown()
	select {
	case <-down:
		p.refused.Add(1)
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
	case <-down:
	case <-done:
	}
}

// copy copies data until the proxy freezes.
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

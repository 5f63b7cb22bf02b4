// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
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

	"github.com/livesched/livesched/test/network"
)

// newProxy starts a proxy for the API server that ends with the spec.
func newProxy() *network.Proxy {
	GinkgoHelper()
	server, err := url.Parse(cluster.Config.Host)
	Expect(err).NotTo(HaveOccurred())
	p, err := network.NewProxy(server.Host)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(p.Stop)
	return p
}

// cut ends all connections of a proxy. Until mend is called, it ends new ones at once, and counts
// them.
func cut(p *network.Proxy) (refused *atomic.Int32, mend func()) {
	GinkgoHelper()
	p.Cut()
	listener, err := net.Listen("tcp", p.Address())
	Expect(err).NotTo(HaveOccurred())
	refused = &atomic.Int32{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			connection, err := listener.Accept()
			if err != nil {
				return // closed
			}
			_ = connection.Close()
			refused.Add(1)
		}
	}()
	closing := sync.OnceFunc(func() {
		_ = listener.Close()
		<-ended
	})
	DeferCleanup(closing)
	return refused, func() {
		GinkgoHelper()
		closing()
		Expect(p.Mend()).To(Succeed())
	}
}

// waitsForFirstResponse returns a livesched that is connected to a server that never responds.
func waitsForFirstResponse(args ...string) *command {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(listener.Close)
	c := livesched(append([]string{"--kubeconfig=" + kubeconfigFor(cluster.Kubeconfig(), listener.Addr().String()),
		"--leader-elect=false"}, args...)...)
	connection, err := listener.Accept()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(connection.Close)
	return c
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

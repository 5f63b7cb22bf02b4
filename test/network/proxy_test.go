// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestProxy(t *testing.T) {
	SetDefaultEventuallyTimeout(time.Minute)
	g := NewWithT(t)
	server := httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }))
	t.Cleanup(server.Close)
	upstream, err := url.Parse(server.URL)
	g.Expect(err).NotTo(HaveOccurred())
	p, err := NewProxy(upstream.Host)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(p.Stop)
	client := &http.Client{Timeout: 10 * time.Second}
	get := func() error {
		answer, err := client.Get("http://" + p.Address())
		if err != nil {
			return err
		}
		return answer.Body.Close()
	}
	g.Expect(get()).To(Succeed())

	p.Cut()
	g.Expect(get()).To(MatchError(ContainSubstring("connection refused")))
	g.Expect(p.Mend()).To(Succeed())
	g.Expect(get()).To(Succeed())

	g.Expect(p.Freeze()).To(Succeed())
	client.Timeout = 200 * time.Millisecond
	g.Expect(get()).To(MatchError(ContainSubstring("Client.Timeout exceeded")))
	client.Timeout = 10 * time.Second
	g.Expect(p.Mend()).To(Succeed())
	g.Eventually(get).Should(Succeed(), "a connection that was frozen has ended")

	for name, impair := range map[string]func() error{
		"delay":  func() error { return p.Delay(10 * time.Millisecond) },
		"narrow": func() error { return p.Narrow(100) },
	} {
		g.Expect(impair()).To(Succeed(), name)
		client.CloseIdleConnections()
		g.Eventually(get).Should(Succeed(), name)
		g.Expect(p.Mend()).To(Succeed(), name)
	}
	g.Expect(p.Reset(time.Millisecond)).To(Succeed())
	client.CloseIdleConnections()
	g.Expect(get()).To(MatchError(Or(ContainSubstring("reset"), ContainSubstring("EOF"))))
	g.Expect(p.Mend()).To(Succeed())
	g.Eventually(get).Should(Succeed())
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/url"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/util/cert"
)

// trust is the way to connect to a livesched and to verify it.
type trust struct {
	// authorities verify its certificate, in PEM. Empty means the authorities of the
	// system.
	authorities []byte
	// serverName is the name that the certificate must be valid for. Empty means the name in
	// the URL.
	serverName string
	// dial connects. nil means to connect to the URL, through proxy.
	dial  func(context.Context) (net.Conn, error)
	proxy func(*http.Request) (*url.URL, error)
}

// trustOnly trusts one certificate and no other one. The certificate is among the authorities, so
// its name and its time are verified as always.
func trustOnly(certificate *x509.Certificate) (trust, error) {
	t := trust{
		authorities: pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: certificate.Raw}),
		proxy:       func(*http.Request) (*url.URL, error) { return nil, nil },
	}
	switch {
	case len(certificate.DNSNames) > 0:
		t.serverName = certificate.DNSNames[0]
	case len(certificate.IPAddresses) > 0:
		t.serverName = certificate.IPAddresses[0].String()
	default:
		return trust{}, errors.New("its certificate has no subject alternative name")
	}
	return t, nil
}

// transport returns a transport with the credentials for the API server, and nothing else of its
// configuration: neither its authority, nor that it is not to be verified, nor its proxy.
func (t *trust) transport(config *rest.Config) (http.RoundTripper, error) {
	c, err := config.TransportConfig() // a plugin for credentials gets to know the API server
	if err != nil {
		return nil, err
	}
	c.TLS.Insecure, c.TLS.CAFile, c.TLS.CAData, c.TLS.ReloadCAFiles = false, "", t.authorities, false
	c.TLS.ServerName, c.TLS.NextProtos = t.serverName, []string{"http/1.1"}
	c.Proxy, c.DialHolder = t.proxy, nil
	if t.dial != nil {
		c.DialHolder = &transport.DialHolder{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return t.dial(ctx)
		}}
	}
	return transport.New(c)
}

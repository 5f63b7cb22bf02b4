// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

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

// Trust is the way to connect to a livesched and to verify it.
type Trust struct {
	// Authorities verify its certificate, in PEM. Empty means the authorities of the
	// system.
	Authorities []byte
	// ServerName is the name that the certificate must be valid for. Empty means the name in
	// the URL.
	ServerName string
	// Dial connects. nil means to connect to the URL, through Proxy.
	Dial  func(context.Context) (net.Conn, error)
	Proxy func(*http.Request) (*url.URL, error)
}

// TrustOnly trusts one certificate and no other one. The certificate is among the authorities, so
// its name and its time are verified as always.
func TrustOnly(certificate *x509.Certificate) (Trust, error) {
	t := Trust{
		Authorities: pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: certificate.Raw}),
		Proxy:       func(*http.Request) (*url.URL, error) { return nil, nil },
	}
	switch {
	case len(certificate.DNSNames) > 0:
		t.ServerName = certificate.DNSNames[0]
	case len(certificate.IPAddresses) > 0:
		t.ServerName = certificate.IPAddresses[0].String()
	default:
		return Trust{}, errors.New("its certificate has no subject alternative name")
	}
	return t, nil
}

// Client returns a client with the credentials for the API server, and nothing else of its
// configuration: neither its authority, nor that it is not to be verified, nor its proxy.
func (t *Trust) Client(config *rest.Config) (*http.Client, error) {
	c, err := config.TransportConfig() // a plugin for credentials gets to know the API server
	if err != nil {
		return nil, err
	}
	c.TLS.Insecure, c.TLS.CAFile, c.TLS.CAData, c.TLS.ReloadCAFiles = false, "", t.Authorities, false
	c.TLS.ServerName, c.TLS.NextProtos = t.ServerName, []string{"http/1.1"}
	c.Proxy, c.DialHolder = t.Proxy, nil
	if t.Dial != nil {
		c.DialHolder = &transport.DialHolder{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return t.Dial(ctx)
		}}
	}
	sender, err := transport.New(c)
	if err != nil {
		return nil, err
	}
	return &http.Client{
		Transport: sender,
		// The transport would send the credentials to wherever livesched redirects.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

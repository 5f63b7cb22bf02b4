// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Package servingcert provides the certificates of livesched's servers. The webhook's is in a
// Secret that all replicas share, signed by livesched's own certificate authority, which the
// package writes into the webhook's configuration. Others are made in memory.
//
// The Keeper exists because github.com/open-policy-agent/cert-controller watches all Secrets of
// the namespace and all webhook configurations of the cluster, needs the Secret to be mounted, and
// ends the process if it is not.
package servingcert

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// The keys of the Secret. SecretCA holds the current authority first, then older ones that are
// still trusted.
const (
	SecretCA          = "ca.crt"
	SecretCAKey       = "ca.key"
	SecretCertificate = "tls.crt"
	SecretKey         = "tls.key"
)

// Lifetimes are the lifetimes of issued certificates.
type Lifetimes struct {
	// CA is the lifetime of an authority. It is renewed when a fifth of that is left.
	CA time.Duration
	// Certificate is the lifetime of a serving certificate. It is renewed when a third of that is
	// left.
	Certificate time.Duration
	// Notice is how long a new authority is published before it signs a certificate, so that all
	// API servers trust it in time.
	Notice time.Duration
}

// DefaultLifetimes are the lifetimes that livesched uses.
var DefaultLifetimes = Lifetimes{CA: 10 * 365 * 24 * time.Hour, Certificate: 365 * 24 * time.Hour, Notice: time.Hour}

// skew is how far the clock of an API server may be behind.
const skew = time.Hour

// renewed is the wanted content of the Secret.
type renewed struct {
	// data shares no memory with the current content. changed reports whether it differs from the
	// current content.
	data    map[string][]byte
	changed bool
	// again is when to call renew again.
	again time.Time
}

// renew returns the wanted content of the Secret, given its current one, which may be anything:
// empty, valid, about to expire or broken. It is a pure function except for the keys that it
// generates, so replicas that see the same Secret agree.
func renew(held map[string][]byte, names []string, now time.Time, l Lifetimes) (*renewed, error) {
	r := &renewed{data: maps.Clone(held)}
	if r.data == nil {
		r.data = map[string][]byte{}
	}
	authorities := stillValid(held[SecretCA], now)
	signer, err := caKey(held, authorities)
	if err != nil || now.After(renewal(authorities[0], 5)) {
		fresh, key, err := newAuthority(now, l.CA)
		if err != nil {
			return nil, fmt.Errorf("making an authority: %w", err)
		}
		authorities, signer = append([]*x509.Certificate{fresh}, authorities...), key
		if r.data[SecretCAKey], err = keyutil.MarshalPrivateKeyToPEM(key); err != nil {
			return nil, fmt.Errorf("encoding the key of an authority: %w", err)
		}
	}
	if r.data[SecretCA], err = cert.EncodeCertificates(authorities...); err != nil {
		return nil, fmt.Errorf("encoding the authorities: %w", err)
	}

	serving := goodCertificate(held, authorities, names, now)
	noticed := authorities[0].NotBefore.Add(skew + l.Notice)
	outdated := serving != nil && serving.CheckSignatureFrom(authorities[0]) != nil
	if serving == nil || now.After(renewal(serving, 3)) && !outdated || outdated && !now.Before(noticed) {
		if serving, err = r.issue(authorities[0], signer, names, now, l.Certificate); err != nil {
			return nil, fmt.Errorf("issuing a certificate: %w", err)
		}
		outdated = false
	}
	times := []time.Time{noticed}
	if !outdated {
		times = []time.Time{renewal(authorities[0], 5), renewal(serving, 3)}
	}
	for _, old := range authorities[1:] {
		times = append(times, old.NotAfter)
	}
	r.again = slices.MinFunc(times, time.Time.Compare)
	r.changed = !maps.EqualFunc(held, r.data, bytes.Equal)
	return r, nil
}

// renewal returns when to renew a certificate: when one part of its lifetime is left.
func renewal(c *x509.Certificate, part time.Duration) time.Time {
	return c.NotAfter.Add(-c.NotAfter.Sub(c.NotBefore) / part)
}

// stillValid returns the authorities of a bundle that have not expired.
func stillValid(bundle []byte, now time.Time) (valid []*x509.Certificate) {
	all, err := cert.ParseCertsPEM(bundle)
	if err != nil {
		return nil
	}
	for _, c := range all {
		if c.IsCA && now.Before(c.NotAfter) {
			valid = append(valid, c)
		}
	}
	return valid
}

// caKey returns the key of the first authority.
func caKey(held map[string][]byte, authorities []*x509.Certificate) (crypto.Signer, error) {
	if len(authorities) == 0 {
		return nil, errors.New("no authority")
	}
	key, err := keyutil.ParsePrivateKeyPEM(held[SecretCAKey])
	if err != nil {
		return nil, err
	}
	signer, ok := key.(*ecdsa.PrivateKey)
	if !ok || !signer.PublicKey.Equal(authorities[0].PublicKey) {
		return nil, errors.New("not the key of the first authority")
	}
	return signer, nil
}

// goodCertificate returns the certificate of the Secret, nil unless it is valid for all names and
// signed by an authority.
func goodCertificate(held map[string][]byte, authorities []*x509.Certificate, names []string,
	now time.Time) *x509.Certificate {
	pair, err := tls.X509KeyPair(held[SecretCertificate], held[SecretKey])
	if err != nil {
		return nil
	}
	roots := x509.NewCertPool()
	for _, authority := range authorities {
		roots.AddCert(authority)
	}
	for _, name := range names {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: now}); err != nil {
			return nil
		}
	}
	return pair.Leaf
}

func newAuthority(now time.Time, lifetime time.Duration) (*x509.Certificate, crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template, err := newTemplate("livesched-webhook-ca", now, lifetime)
	if err != nil {
		return nil, nil, err
	}
	template.IsCA = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	authority, err := x509.ParseCertificate(der)
	return authority, key, err
}

// issue replaces the certificate with a new one for the names.
func (r *renewed) issue(authority *x509.Certificate, signer crypto.Signer, names []string, now time.Time,
	lifetime time.Duration) (*x509.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := newTemplate(names[0], now, lifetime)
	if err != nil {
		return nil, err
	}
	template.DNSNames = names
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, authority, key.Public(), signer)
	if err != nil {
		return nil, err
	}
	if r.data[SecretKey], err = keyutil.MarshalPrivateKeyToPEM(key); err != nil {
		return nil, err
	}
	r.data[SecretCertificate] = pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der})
	return x509.ParseCertificate(der)
}

func newTemplate(name string, now time.Time, lifetime time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, big.NewInt(math.MaxInt64))
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		SerialNumber:          serial.Add(serial, big.NewInt(1)),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-skew).UTC(),
		NotAfter:              now.Add(lifetime).UTC(),
		BasicConstraintsValid: true,
	}, nil
}

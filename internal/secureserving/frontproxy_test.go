// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package secureserving

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/transport"
)

// authority signs client certificates.
type authority struct {
	t           *testing.T
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{t: t}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	a.certificate, a.key = a.sign(template, template, nil)
	return a
}

func (a *authority) sign(template, parent *x509.Certificate,
	signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	if signer == nil {
		signer = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return certificate, key
}

// client returns a client certificate.
func (a *authority) client(name string) *x509.Certificate {
	a.t.Helper()
	certificate, _ := a.sign(&x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, a.certificate, a.key)
	return certificate
}

func (a *authority) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw}))
}

// startGuard returns a guard that follows the ConfigMap of an API server whose proxy has
// certificates of one authority with the name front-proxy, and whose users have those of another.
func startGuard(t *testing.T, proxies, clients *authority, o Options) (*Guard, *users) {
	t.Helper()
	u := &users{refused: []string{"nobody"}, config: &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: authenticationConfigMap,
			ResourceVersion: "1"},
		Data: map[string]string{
			"client-ca-file":                     clients.pem(),
			"requestheader-client-ca-file":       proxies.pem(),
			"requestheader-allowed-names":        `["front-proxy"]`,
			"requestheader-username-headers":     `["X-Remote-User"]`,
			"requestheader-uid-headers":          `["X-Remote-Uid"]`,
			"requestheader-group-headers":        `["X-Remote-Group"]`,
			"requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
		},
	}}
	g := u.guard(t, o)
	ctx, end := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = g.Start(ctx) })
	t.Cleanup(func() { end(); running.Wait() })
	gomega.NewWithT(t).Eventually(func() bool {
		_, known := g.clientCA.VerifyOptions()
		if g.frontProxy == nil {
			return known
		}
		_, proxy := g.frontProxy.ca.VerifyOptions()
		return known && proxy && len(g.frontProxy.headers.UsernameHeaders()) > 0
	}, time.Minute, time.Millisecond).Should(gomega.BeTrue())
	return g, u
}

// certified returns a request with a client certificate that names a user in headers.
func certified(certificate *x509.Certificate, path, name string, groups ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.TLS = &tls.ConnectionState{}
	if certificate != nil {
		r.TLS.PeerCertificates = []*x509.Certificate{certificate}
	}
	transport.SetAuthProxyHeaders(r, name, "", groups, nil)
	return r
}

func TestTheAPIServerIsAnsweredForItsUserWithTheFlag(t *testing.T) {
	proxies, clients := newAuthority(t, "proxies"), newAuthority(t, "clients")
	g, u := startGuard(t, proxies, clients, Options{FrontProxy: true})
	proxy := proxies.client("front-proxy")

	answer, seen := through(g, certified(proxy, kinds, "jane", "ml"))
	if seen == nil || seen.user.GetName() != "jane" || seen.passedOn || u.lastAsked().User != "jane" {
		t.Errorf("the API server asks for jane: %+v, %d: %s", seen, answer.Code, answer.Body)
	}
	answer, seen = through(g, certified(proxy, kinds, "nobody"))
	if seen != nil || answer.Code != http.StatusForbidden {
		t.Errorf("a user without the right: %d", answer.Code)
	}
	if answer, seen := through(g, certified(proxy, kinds, "root", "system:masters")); seen == nil {
		t.Errorf("the API server itself: %d", answer.Code)
	}
	own, seen := through(g, certified(clients.client("alice"), kinds, "root", "system:masters"))
	if seen == nil || seen.user.GetName() != "alice" {
		t.Errorf("a user with a certificate is taken for %+v: %d", seen, own.Code)
	}
	another := newAuthority(t, "another").client("front-proxy")
	for what, r := range map[string]*http.Request{
		"no certificate":                    certified(nil, kinds, "root", "system:masters"),
		"another authority":                 certified(another, kinds, "root", "system:masters"),
		"the authority of users":            certified(clients.client("front-proxy"), "/configz", "nobody"),
		"a name that is not allowed":        certified(proxies.client("somebody"), kinds, "root", "system:masters"),
		"the certificate alone, for nobody": certified(proxy, kinds, ""),
	} {
		answer, seen := through(g, r)
		if what == "the authority of users" {
			if seen == nil || seen.user.GetName() != "front-proxy" {
				t.Errorf("%s: taken for %+v", what, seen)
			}
		} else if seen != nil || answer.Code != http.StatusUnauthorized {
			t.Errorf("%s: %d, %+v", what, answer.Code, seen)
		}
	}
}

func TestTheAPIServerIsNotAnsweredForItsUserWithoutTheFlag(t *testing.T) {
	proxies, clients := newAuthority(t, "proxies"), newAuthority(t, "clients")
	g, _ := startGuard(t, proxies, clients, Options{})
	answer, seen := through(g, certified(proxies.client("front-proxy"), kinds, "jane"))
	if seen != nil || answer.Code != http.StatusUnauthorized {
		t.Errorf("got %d, %+v", answer.Code, seen)
	}
}

func TestTheAPIServerDoesNotPassOnForAReplica(t *testing.T) {
	proxies, clients := newAuthority(t, "proxies"), newAuthority(t, "clients")
	g, _ := startGuard(t, proxies, clients, Options{FrontProxy: true})
	for _, name := range []string{"jane", own} {
		// The API server lets clients' own headers through.
		r := certified(proxies.client("front-proxy"), kinds, name)
		r.Header.Set(PassedOnHeader, "livesched-1")
		if answer, seen := through(g, r); seen != nil || answer.Code != http.StatusForbidden {
			t.Errorf("%s: %d, %+v", name, answer.Code, seen)
		}
	}
}

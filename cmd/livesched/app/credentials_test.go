// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/livesched/livesched/test/controlplane/process"
)

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newAuthority() *authority {
	GinkgoHelper()
	a := &authority{}
	var err error
	a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	a.certificate, err = certutil.NewSelfSignedCACert(certutil.Config{CommonName: "test-ca"}, a.key)
	Expect(err).NotTo(HaveOccurred())
	a.pem, err = certutil.EncodeCertificates(a.certificate)
	Expect(err).NotTo(HaveOccurred())
	return a
}

// issue returns a certificate and its key in PEM, for clients and for servers on the loopback
// interface. The groups are those of a client.
func (a *authority) issue(name string, groups ...string) (certificate, key []byte) {
	GinkgoHelper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name, Organization: groups},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, private.Public(), a.key)
	Expect(err).NotTo(HaveOccurred())
	parsed, err := x509.ParseCertificate(der)
	Expect(err).NotTo(HaveOccurred())
	certificate, err = certutil.EncodeCertificates(parsed)
	Expect(err).NotTo(HaveOccurred())
	key, err = keyutil.MarshalPrivateKeyToPEM(private)
	Expect(err).NotTo(HaveOccurred())
	return certificate, key
}

// client returns a client with a certificate.
func (a *authority) client(name string, groups ...string) *http.Client {
	GinkgoHelper()
	pair, err := tls.X509KeyPair(a.issue(name, groups...))
	Expect(err).NotTo(HaveOccurred())
	return httpsClient(&tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}})
}

// httpsClient returns a client that makes a connection for each request.
func httpsClient(config *tls.Config) *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
}

// getAs is get with a token, none if it is empty. It accepts every certificate.
func getAs(ctx context.Context, token, url string) answer {
	client := httpsClient(&tls.Config{InsecureSkipVerify: true})
	if token != "" {
		client.Transport = bearer{token, client.Transport}
	}
	return getWith(ctx, client, url)
}

// bearer adds a token to requests.
type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

// serviceAccount creates a service account until the end of the spec, bound to a ClusterRole unless
// that is empty, and returns a token for it. The role permits path.
func serviceAccount(ctx context.Context, name, role, path string) (token string) {
	GinkgoHelper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	createUntilEnd(ctx, account)
	if role != "" {
		bindRole(ctx, name, role, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name})
		expectReadable(ctx, "system:serviceaccount:"+namespace+":"+name, path)
	}
	request := &authenticationv1.TokenRequest{}
	Expect(k8s.SubResource("token").Create(ctx, account, request)).To(Succeed())
	return request.Status.Token
}

func bindRole(ctx context.Context, name, role string, subject rbacv1.Subject) {
	GinkgoHelper()
	createUntilEnd(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "test-" + name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{subject},
	})
}

// expectReadable waits until the API server permits a user to read a path. livesched keeps a
// refusal for ten seconds, so it must not ask before.
func expectReadable(ctx context.Context, user, path string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
		}}
		g.Expect(k8s.Create(ctx, review)).To(Succeed())
		g.Expect(review.Status.Allowed).To(BeTrue())
	}).WithContext(ctx).Should(Succeed())
}

// securePort returns the flags of a secure port as one, and sets its address.
func securePort(address *string) string {
	GinkgoHelper()
	*address = freeAddress()
	_, port, err := net.SplitHostPort(*address)
	Expect(err).NotTo(HaveOccurred())
	return "--secure-port=" + port
}

// freePort returns a free port.
func freePort() int {
	GinkgoHelper()
	port, err := process.FreePort()
	Expect(err).NotTo(HaveOccurred())
	return port
}

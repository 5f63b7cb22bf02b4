// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/api/v1alpha1"
	. "github.com/livesched/livesched/test/e2e/framework"
	. "github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testextender"
)

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(name string) *authority {
	GinkgoHelper()
	a := &authority{certificate: &x509.Certificate{IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}}
	a.certificate, a.key = a.sign(name, a.certificate)
	return a
}

// sign makes a certificate with a key; an authority without a key signs with the certificate's own.
func (a *authority) sign(name string, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	GinkgoHelper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.Subject = pkix.Name{CommonName: name}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	signer := a.key
	if signer == nil {
		signer = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), signer)
	Expect(err).NotTo(HaveOccurred())
	certificate, err := x509.ParseCertificate(der)
	Expect(err).NotTo(HaveOccurred())
	return certificate, key
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

// pair makes a certificate for a server named extender.test, and for clients, with its key, in PEM
// form.
func (a *authority) pair(name string) (certificate, key []byte) {
	GinkgoHelper()
	made, private := a.sign(name, &x509.Certificate{
		DNSNames: []string{"extender.test"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	der, err := x509.MarshalECPrivateKey(private)
	Expect(err).NotTo(HaveOccurred())
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made.Raw}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

// speaksTLS makes an extender use TLS with a certificate of the authority, and require one of
// clients.
func (a *authority) speaksTLS(o *testextender.Options) {
	GinkgoHelper()
	pair, err := tls.X509KeyPair(a.pair("extender"))
	Expect(err).NotTo(HaveOccurred())
	clients := x509.NewCertPool()
	clients.AddCert(a.certificate)
	o.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: clients,
		ClientAuth: tls.RequireAndVerifyClientCert}
}

// secretData is the TLS material of a client of the authority's extenders.
func (a *authority) secretData(name string) map[string][]byte {
	GinkgoHelper()
	certificate, key := a.pair(name)
	return map[string][]byte{"ca.crt": a.pem(), "tls.crt": certificate, "tls.key": key, "more": []byte("of no use")}
}

var _ = Describe("An extender that speaks TLS", func() {
	const policySpec = `{podInitialBackoff: 1ms, podMaxBackoff: 1ms,
		extenders: [{urlPrefix: %q, filterVerb: filter, enableHTTPS: true, tlsConfig: {serverName: extender.test, secretRef: {namespace: default, name: tls}}}]}`
	var (
		old      *authority
		extender *testextender.Extender
		secret   *corev1.Secret
	)

	expectPolicy := func(ctx context.Context, kind string, status metav1.ConditionStatus, reason, message string) {
		GinkgoHelper()
		Eventually(func(g Gomega) {
			p := &v1alpha1.SchedulingPolicy{}
			g.Expect(K8s.Get(ctx, client.ObjectKey{Name: "default"}, p)).To(Succeed())
			g.Expect(p.Status.ObservedGeneration).To(Equal(p.Generation))
			g.Expect(meta.FindStatusCondition(p.Status.Conditions, kind)).To(And(
				HaveField("Status", status), HaveField("Reason", reason),
				HaveField("Message", ContainSubstring(message))))
		}).WithContext(ctx).Should(Succeed())
	}

	BeforeEach(func(ctx context.Context) {
		old = newAuthority("old")
		extender = startExtender(old.speaksTLS)
		CreateNodes(ctx, "n1", "n2")
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "tls", Labels: map[string]string{v1alpha1.LabelSchedulingPolicy: "default"},
		}, Data: old.secretData("client-1")}
		Start()
	})

	It("uses the contents of a Secret as soon as the Secret exists, and follows its changes",
		func(ctx context.Context) {
			Create(ctx, Policy("default", fmt.Sprintf(policySpec, extender.URL)), Profile("mine", ""))
			expectPolicy(ctx, v1alpha1.ConditionAccepted, "False", v1alpha1.ReasonSecretNotFound,
				`spec.extenders[0].tlsConfig.secretRef: Secret "tls" does not exist in namespace "default"`)
			ExpectCondition(ctx, "mine", v1alpha1.ConditionAccepted, "False", v1alpha1.ReasonPolicyNotAccepted)
			first := CreatePod(ctx, "mine", "first")

			By("creating the Secret")
			CreateFor(ctx, secret)
			ExpectBound(ctx, first)
			expectPolicy(ctx, v1alpha1.ConditionProgrammed, "True", v1alpha1.ReasonProgrammed, "")
			Expect(callsAbout(extender, testextender.Filter, first)).To(HaveEach(HaveField("Client", "client-1")))

			By("giving it a new client certificate")
			Update(ctx, secret, func(s *corev1.Secret) { s.Data = old.secretData("client-2") })
			Eventually(func(g Gomega) {
				pod := CreatePod(ctx, "mine", fmt.Sprintf("second-%d", time.Now().UnixNano()))
				ExpectBound(ctx, pod)
				g.Expect(callsAbout(extender, testextender.Filter, pod)).To(ConsistOf(HaveField("Client", "client-2")))
			}).WithContext(ctx).Should(Succeed())

			By("moving the extender to another authority, which is not trusted until the Secret has it")
			next := newAuthority("next")
			moved := startExtender(next.speaksTLS)
			Repolicy(ctx, "default", fmt.Sprintf(policySpec, moved.URL))
			third := CreatePod(ctx, "mine", "third")
			ExpectUnscheduled(ctx, third, corev1.PodReasonSchedulerError,
				And(ContainSubstring(moved.URL), ContainSubstring("certificate signed by unknown authority")))
			Update(ctx, secret, func(s *corev1.Secret) { s.Data = next.secretData("client-3") })
			ExpectBound(ctx, third)
			Expect(callsAbout(moved, testextender.Filter, third)).To(HaveEach(HaveField("Client", "client-3")))

			By("keeping the contents out of everything that users can read")
			var shown []any
			for _, list := range []client.ObjectList{&v1alpha1.SchedulingPolicyList{}, &v1alpha1.SchedulerProfileList{},
				&eventsv1.EventList{}, &corev1.PodList{}} {
				Expect(K8s.List(ctx, list)).To(Succeed())
				shown = append(shown, list)
			}
			text, err := yaml.Marshal(shown)
			Expect(err).NotTo(HaveOccurred())
			Expect(string(text)).
				NotTo(Or(ContainSubstring("PRIVATE KEY"), ContainSubstring("BEGIN CERTIFICATE"),
					ContainSubstring("of no use")))
		})

	It("continues with the last good contents while the Secret is broken or deleted", func(ctx context.Context) {
		CreateFor(ctx, secret)
		Create(ctx, Policy("default", fmt.Sprintf(policySpec, extender.URL)))
		CreateProfile(ctx, "mine", "")
		for i, breakIt := range []func(*corev1.Secret){
			func(s *corev1.Secret) { s.Data = map[string][]byte{"password": []byte("sesame")} },
			func(s *corev1.Secret) { s.Data = old.secretData("client-2"); s.Data["tls.key"] = []byte("sesame") },
			func(s *corev1.Secret) { s.Data = old.secretData("client-2"); delete(s.Data, "tls.crt") },
		} {
			Update(ctx, secret, breakIt)
			expectPolicy(ctx, v1alpha1.ConditionAccepted, "False", v1alpha1.ReasonInvalidSecret,
				[]string{"has none of ca.crt, tls.crt and tls.key", "has no private key in PEM form in tls.key",
					"has tls.key without tls.crt"}[i])
			expectPolicy(ctx, v1alpha1.ConditionProgrammed, "False", v1alpha1.ReasonKeptLastGood, "")
			pod := CreatePod(ctx, "mine", fmt.Sprintf("pod-%d", i))
			ExpectBound(ctx, pod)
			Expect(callsAbout(extender, testextender.Filter, pod)).To(ConsistOf(HaveField("Client", "client-1")))
		}
		Expect(K8s.Delete(ctx, secret)).To(Succeed())
		expectPolicy(ctx, v1alpha1.ConditionAccepted, "False", v1alpha1.ReasonSecretNotFound, "does not exist")
		ExpectBound(ctx, CreatePod(ctx, "mine", "gone"))

		secret.ResourceVersion, secret.UID, secret.Data = "", "", old.secretData("client-2")
		Create(ctx, secret)
		expectPolicy(ctx, v1alpha1.ConditionProgrammed, "True", v1alpha1.ReasonProgrammed, "")
		pod := CreatePod(ctx, "mine", "back")
		ExpectBound(ctx, pod)
		Expect(callsAbout(extender, testextender.Filter, pod)).To(ConsistOf(HaveField("Client", "client-2")))
	})
})

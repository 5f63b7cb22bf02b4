// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/cmd/livesched/app"
	"github.com/livesched/livesched/internal/servingcert"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

var _ = Describe("The secure port", func() {
	var base string
	// start runs livesched in the test's process, with the endpoint at base.
	start := func(change func(*app.Options)) {
		GinkgoHelper()
		o := testcluster.Options()
		o.Secure.Port, o.Secure.BindAddress = freePort(), "127.0.0.1"
		change(o)
		run, err := cluster.Run(context.Background(), GinkgoLogr, o)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(run.Stop(tolerated)).To(Succeed()) })
		base = "https://" + net.JoinHostPort(o.Secure.BindAddress, strconv.Itoa(o.Secure.Port))
	}
	roles := func(ctx context.Context, names ...string) {
		GinkgoHelper()
		for _, object := range manifests(filepath.Join(testcluster.Root(), "config", "rbac")) {
			for _, name := range names {
				if object.GetName() == name {
					createUntilEnd(ctx, object)
				}
			}
		}
	}

	It("serves each path to those alone whom the API server permits", func(ctx context.Context) {
		roles(ctx, "livesched-metrics-reader", "livesched-debugger")
		debugger := serviceAccount(ctx, "debugger", "livesched-debugger", "/configz")
		scraper := serviceAccount(ctx, "scraper", "livesched-metrics-reader", "/metrics")
		stranger := serviceAccount(ctx, "stranger", "", "")
		start(func(o *app.Options) { o.Profiling = true })
		Eventually(getAs).WithArguments(ctx, "", base+"/readyz").Should(HaveField("Code", http.StatusOK))

		metrics := []string{"/metrics", "/metrics/resources"}
		others := []string{
			"/configz", "/readyz/handlers", "/livez/ping",
			"/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/profile?seconds=1", "/debug/pprof/symbol",
			"/debug/pprof/trace?seconds=0.1", "/debug/pprof/heap",
		}
		for _, path := range append(metrics, others...) {
			Expect(getAs(ctx, "", base+path).Code).To(Equal(http.StatusUnauthorized), path)
			Expect(getAs(ctx, "no-token-at-all", base+path).Code).To(Equal(http.StatusUnauthorized), path)
			Expect(getAs(ctx, stranger, base+path).Code).To(Equal(http.StatusForbidden), path)
			Expect(getAs(ctx, debugger, base+path).Code).To(Equal(http.StatusOK), path)
		}
		for _, path := range metrics {
			Expect(getAs(ctx, scraper, base+path).Code).To(Equal(http.StatusOK), path)
		}
		for _, path := range others {
			Expect(getAs(ctx, scraper, base+path).Code).To(Equal(http.StatusForbidden), path)
		}
		Expect(getAs(ctx, scraper, base+"/metrics").Body).To(ContainSubstring("livesched_profiles"))
		Expect(getAs(ctx, stranger, base+"/metrics").Body).
			To(Equal(`Forbidden: user "system:serviceaccount:livesched-system:stranger" cannot get path "/metrics"` +
				"\n"))
		Expect(getAs(ctx, "", base+"/no-such-path").Code).To(Equal(http.StatusUnauthorized))
	})

	It("serves health to everybody, also to a caller with invalid credentials", func(ctx context.Context) {
		start(func(*app.Options) {})
		for _, path := range []string{"/livez", "/healthz", "/readyz"} {
			Eventually(getAs).WithArguments(ctx, "", base+path).Should(Equal(answer{http.StatusOK, "ok"}))
			Expect(getAs(ctx, "no-token-at-all", base+path)).To(Equal(answer{http.StatusOK, "ok"}))
		}
		Expect(getAs(ctx, "", base+"/livez/../metrics").Code).NotTo(Equal(http.StatusOK))
	})

	It("serves to everybody the paths that a flag names", func(ctx context.Context) {
		start(func(o *app.Options) { o.Secure.AlwaysAllowPaths = []string{"/metrics"} })
		Eventually(getAs).WithArguments(ctx, "", base+"/metrics").Should(HaveField("Code", http.StatusOK))
		Expect(getAs(ctx, "", base+"/livez").Code).To(Equal(http.StatusUnauthorized))
		Expect(getAs(ctx, "", base+"/metrics/resources").Code).To(Equal(http.StatusUnauthorized))
	})

	It("accepts client certificates of the cluster's authority, and no others", func(ctx context.Context) {
		roles(ctx, "livesched-metrics-reader")
		bindRole(ctx, "certified", "livesched-metrics-reader",
			rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "certified"})
		expectReadable(ctx, "certified", "/metrics")
		start(func(*app.Options) {})
		Eventually(getWith).WithArguments(ctx, clientCA.client("certified"), base+"/metrics").
			Should(HaveField("Code", http.StatusOK))
		Expect(getWith(ctx, clientCA.client("unbound"), base+"/metrics").Code).To(Equal(http.StatusForbidden))
		Expect(getWith(ctx, clientCA.client("root", "system:masters"), base+"/configz").Code).To(Equal(http.StatusOK))
		Expect(getWith(ctx, newAuthority().client("certified"), base+"/metrics").Code).
			To(Equal(http.StatusUnauthorized))
		Expect(getWith(ctx, newAuthority().client("root", "system:masters"), base+"/metrics").Code).
			To(Equal(http.StatusUnauthorized))
	})

	It("serves the certificate of files, and the next one when they change", func(ctx context.Context) {
		ca, dir := newAuthority(), GinkgoT().TempDir()
		certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
		write := func(certificate, key []byte) {
			Expect(os.WriteFile(certFile, certificate, 0o600)).To(Succeed())
			Expect(os.WriteFile(keyFile, key, 0o600)).To(Succeed())
		}
		write(ca.issue("first"))
		start(func(o *app.Options) { o.Secure.CertFile, o.Secure.KeyFile = certFile, keyFile })
		roots := x509.NewCertPool()
		roots.AddCert(ca.certificate)
		name := func() (string, error) {
			connection, err := tls.Dial("tcp", base[len("https://"):], &tls.Config{RootCAs: roots})
			if err != nil {
				return "", err
			}
			defer func() { _ = connection.Close() }()
			return connection.ConnectionState().PeerCertificates[0].Subject.CommonName, nil
		}
		Eventually(name).Should(Equal("first"))
		write(ca.issue("second"))
		Eventually(name).Should(Equal("second"))
		Expect(os.WriteFile(keyFile, []byte("broken"), 0o600)).To(Succeed())
		Consistently(name).Should(Equal("second"))
	})

	It("publishes its certificate, by which a client verifies it", func(ctx context.Context) {
		roles(ctx, "livesched-serving-certs")
		var published corev1.ConfigMap
		host, err := os.Hostname()
		Expect(err).NotTo(HaveOccurred())
		start(func(o *app.Options) { o.LeaderElectionNamespace = namespace })
		var certificate *x509.Certificate
		Eventually(func() error {
			if err := k8s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: servingcert.PublishedConfigMap},
				&published); err != nil {
				return err
			}
			certificate, err = servingcert.Published(published.Data, host)
			return err
		}).WithContext(ctx).Should(Succeed())
		verified := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: host}
		verified.RootCAs.AddCert(certificate)
		Eventually(getWith).WithArguments(ctx, httpsClient(verified), base+"/livez").
			Should(Equal(answer{http.StatusOK, "ok"}))
	})

	It("works without the API server, as far as no answer of it is needed", func(ctx context.Context) {
		p := newProxy()
		var address string
		c := livesched("--kubeconfig="+kubeconfigFor(cluster.Kubeconfig(), p.Address()), "--leader-elect=false",
			securePort(&address))
		base = "https://" + address
		root := clientCA.client("root", "system:masters")
		Eventually(getWith).WithArguments(ctx, root, base+"/metrics").Should(HaveField("Code", http.StatusOK))
		c.expectReady(ctx)

		_, mend := cut(p)
		Expect(getAs(ctx, "unknown", base+"/livez")).To(Equal(answer{http.StatusOK, "ok"}))
		Expect(getWith(ctx, root, base+"/metrics").Code).To(Equal(http.StatusOK))
		Expect(getAs(ctx, "unknown", base+"/metrics").Code).To(Equal(http.StatusUnauthorized))
		mend()

		pod := objects.Pod("default", "after", "mine", "1", "1Gi")
		create(ctx, profile("mine"), objects.Node("n", "4", "16Gi", nil), pod)
		expectBound(ctx, pod)
	})

	It("says that livesched is alive but not ready while the API server has not answered", func(ctx context.Context) {
		var address string
		c := waitsForFirstResponse(securePort(&address))
		Eventually(getAs).WithArguments(ctx, "", "https://"+address+"/livez").Should(Equal(answer{http.StatusOK, "ok"}))
		Expect(getAs(ctx, "", "https://"+address+"/readyz").Code).To(Equal(http.StatusInternalServerError))
		Expect(c.ended).NotTo(BeClosed())
	})

	It("ends livesched with status 1 and the name of the flag if it is in use", func() {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(listener.Close)
		_, port, err := net.SplitHostPort(listener.Addr().String())
		Expect(err).NotTo(HaveOccurred())
		code, text := run("--kubeconfig="+cluster.Kubeconfig(), "--leader-elect=false", "--bind-address=127.0.0.1",
			"--secure-port="+port)
		Expect(code).To(Equal(1))
		Expect(text).To(ContainSubstring("livesched: --secure-port=" + port + ": listen tcp 127.0.0.1:" + port +
			": bind: address already in use"))
	})
})

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/admission"
	"github.com/livesched/livesched/test/testcluster"
)

var _ = Describe("The validating webhook, set up by config/webhook", Ordered, func() {
	var (
		began      time.Time
		one, other *command
		addresses  []string
		secure     string // host:port of the last one that was started
		kubeconfig string
		heard      warnings
		user       client.Client // receives warnings
	)
	start := func(address string) *command {
		return livesched("--kubeconfig="+kubeconfig, "--leader-election-namespace="+namespace,
			"--leader-elect-retry-period=100ms",
			"--webhook", "--webhook-bind-address="+address, "--webhook-namespace="+namespace, securePort(&secure))
	}
	// call makes the API server call the webhook at an address.
	call := func(ctx context.Context, address string) {
		GinkgoHelper()
		_, port, err := net.SplitHostPort(address)
		Expect(err).NotTo(HaveOccurred())
		number, err := strconv.Atoi(port)
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() error {
			configuration := webhookConfiguration(ctx)
			for i := range configuration.Webhooks {
				configuration.Webhooks[i].ClientConfig.Service.Port = ptr.To(int32(number))
			}
			return k8s.Update(ctx, configuration)
		}).WithContext(ctx).Should(Succeed())
	}

	BeforeAll(func(ctx context.Context) {
		objects := append(manifests(filepath.Join(testcluster.Root(), "config", "rbac")),
			manifests(filepath.Join(testcluster.Root(), "config", "webhook"))...)
		for i, object := range objects {
			if object.GetObjectKind().GroupVersionKind().Kind == "Service" {
				// Nothing routes cluster IPs here, but the API server calls a Service of this type
				// by its name.
				objects[i] = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: object.GetNamespace(),
					Name: object.GetName()},
					Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}}
			}
		}
		create(ctx, objects...)
		DeferCleanup(func(ctx context.Context) {
			for _, object := range objects {
				Expect(k8s.Delete(ctx, object)).To(Succeed())
			}
		})
		var err error
		kubeconfig, err = cluster.KubeconfigAs(account, "system:serviceaccounts", "system:serviceaccounts:"+namespace,
			"system:authenticated")
		Expect(err).NotTo(HaveOccurred())
		config := rest.CopyConfig(cluster.Config)
		config.WarningHandlerWithContext = &heard
		user, err = client.New(config, client.Options{Scheme: k8s.Scheme()})
		Expect(err).NotTo(HaveOccurred())

		expectAuthorized(ctx, objects)
		began = time.Now()
		addresses = []string{freeAddress(), freeAddress()}
		call(ctx, addresses[0])
		one, other = start(addresses[0]), start(addresses[1]) // both start concurrently
		one.expectReady(ctx)
		other.expectReady(ctx)
	})

	AfterEach(func() { Expect(forbidden(account, began)).To(BeEmpty()) })

	It("serves one certificate on both replicas, whose authority is in the configuration", func(ctx context.Context) {
		Eventually(func(g Gomega) {
			first, second := served(ctx, g, addresses[0]), served(ctx, g, addresses[1])
			g.Expect(first.SerialNumber).To(Equal(second.SerialNumber))
			g.Expect(first.DNSNames).To(ContainElement("livesched-webhook.livesched-system.svc"))
			g.Expect(served(ctx, g, secure).SerialNumber).
				To(Equal(first.SerialNumber), "the secure port serves it, too")
		}).WithContext(ctx).Should(Succeed())
	})

	It("rejects an invalid object with all errors, each with its field and the allowed values",
		func(ctx context.Context) {
			status := expectRejected(ctx, brokenProfile("refused"))
			Expect(status.Message).To(And(
				ContainSubstring(`admission webhook "validate.livesched.io" denied the request: `+
					`SchedulerProfile.livesched.io "refused" is invalid`),
				ContainSubstring(
					`spec.plugins.score.enabled[0].name: Unsupported value: unknown plugin "NoSuchPlugin"`),
				ContainSubstring(
					`spec.pluginConfig[0].args.hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]`),
			))
			Expect(status.Reason).To(Equal(metav1.StatusReasonInvalid))
			Expect(status.Details.Causes).To(HaveLen(2))
			Expect(status.Details.Causes[0].Field).To(Equal("spec.plugins.score.enabled[0].name"))
		})

	It("rejects an invalid object in a dry run", func(ctx context.Context) {
		// The API server ignores a webhook that does not respond within 5 seconds.
		Eventually(func() error { return k8s.Create(ctx, brokenProfile("dry"), client.DryRunAll) }).WithContext(ctx).
			Should(Satisfy(apierrors.IsInvalid))
		Expect(k8s.Create(ctx, profile("dry"), client.DryRunAll)).To(Succeed())
		Expect(apierrors.IsNotFound(k8s.Get(ctx, types.NamespacedName{Name: "dry"}, &v1alpha1.SchedulerProfile{}))).
			To(BeTrue())
	})

	It("warns about inadvisable settings and missing objects", func(ctx context.Context) {
		// Dry runs are repeated: the API server ignores a webhook that does not respond in time.
		unwise := profile("unwise")
		unwise.Spec.PercentageOfNodesToScore = ptr.To[int32](1)
		unwise.Spec.PolicyRef.Name = "later"
		Eventually(func(g Gomega) {
			heard.forget()
			g.Expect(user.Create(ctx, unwise.DeepCopy(), client.DryRunAll)).To(Succeed())
			g.Expect(heard.all()).To(
				ContainElement(ContainSubstring(`spec.policyRef.name: SchedulingPolicy "later" does not exist`)))
		}).WithContext(ctx).Should(Succeed())
		Expect(user.Create(ctx, unwise)).To(Succeed())

		later := &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "later"}}
		Eventually(func(g Gomega) {
			heard.forget()
			g.Expect(user.Create(ctx, later.DeepCopy(), client.DryRunAll)).To(Succeed())
			g.Expect(heard.all()).To(BeEmpty())
		}).WithContext(ctx).Should(Succeed())
		Expect(user.Create(ctx, later)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(unwise), unwise)).To(Succeed())
			g.Expect(unwise.Status.Conditions).
				To(ContainElement(HaveField("Message", HavePrefix("The spec is valid. Warnings: "+
					"spec.percentageOfNodesToScore: the search for nodes ends at 1%"))))
		}).WithContext(ctx).Should(Succeed())

		// The leader wrote this. The replica that serves the request may not have seen the policy
		// yet.
		Eventually(func(g Gomega) {
			heard.forget()
			g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(unwise), unwise)).To(Succeed())
			unwise.Spec.PercentageOfNodesToScore = ptr.To[int32](2)
			g.Expect(user.Update(ctx, unwise, client.DryRunAll)).To(Succeed())
			g.Expect(heard.all()).
				To(ConsistOf(HavePrefix("spec.percentageOfNodesToScore: the search for nodes ends at 2%")))
		}).WithContext(ctx).Should(Succeed())

		Eventually(func(g Gomega) {
			heard.forget()
			g.Expect(user.Delete(ctx, later, client.DryRunAll)).To(Succeed())
			g.Expect(heard.all()).To(
				ConsistOf(ContainSubstring(`SchedulerProfiles build on SchedulingPolicy "later": unwise`)))
		}).WithContext(ctx).Should(Succeed())
		Expect(user.Delete(ctx, later)).To(Succeed())
	})

	It("works on the leader and on the other replica", func(ctx context.Context) {
		both := func() string { return one.output.String() + other.output.String() }
		Eventually(both).Should(ContainSubstring("Successfully acquired lease"))
		for _, address := range addresses {
			Expect(ask(ctx, address, brokenProfile("asked")).Allowed).To(BeFalse())
			Expect(ask(ctx, address, profile("asked")).Allowed).To(BeTrue())
		}
		Expect(strings.Count(both(), "Successfully acquired lease")).To(Equal(1))
	})

	It("keeps answering the API server in a flood of connections, without more memory", func(ctx context.Context) {
		flood := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 66)}}
		before := peakMemory(one)
		var hostile []net.Conn
		defer func() {
			for _, conn := range hostile {
				_ = conn.Close() // livesched may have closed it
			}
		}()
		for i := range 1000 {
			conn, err := flood.DialContext(ctx, "tcp", addresses[0])
			Expect(err).NotTo(HaveOccurred())
			hostile = append(hostile, conn)
			if i%250 == 0 {
				Expect(ask(ctx, addresses[0], brokenProfile("asked")).Allowed).To(BeFalse())
			}
		}
		expectRejected(ctx, brokenProfile("refused-in-a-flood"))
		// A connection takes 50 kB with its buffers and its goroutine.
		Expect(peakMemory(one) - before).To(BeNumerically("<", 40<<20))
	})

	It("is asked again when it has too much to do", func(ctx context.Context) {
		busy := busyWebhook(ctx)
		call(ctx, busy.Listener.Addr().String())
		DeferCleanup(func(ctx context.Context) { call(ctx, addresses[0]) })
		Eventually(func() error { return k8s.Create(ctx, profile("asked-twice"), client.DryRunAll) }).WithContext(ctx).
			Should(MatchError(ContainSubstring("the second attempt")))
	})

	It("restores its authority when it is removed from the configuration", func(ctx context.Context) {
		Eventually(func() error {
			configuration := webhookConfiguration(ctx)
			for i := range configuration.Webhooks {
				configuration.Webhooks[i].ClientConfig.CABundle = nil
			}
			return k8s.Update(ctx, configuration)
		}).WithContext(ctx).Should(Succeed())
		Eventually(func() []byte { return webhookConfiguration(ctx).Webhooks[0].ClientConfig.CABundle }).
			WithContext(ctx).ShouldNot(BeEmpty())
		expectRejected(ctx, brokenProfile("refused-after-that"))
	})

	It("creates another certificate, without a restart, when it is removed from the Secret", func(ctx context.Context) {
		var before *x509.Certificate
		Eventually(func(g Gomega) { before = served(ctx, g, addresses[0]) }).WithContext(ctx).Should(Succeed())
		Eventually(func() error {
			secret := &corev1.Secret{}
			if err := k8s.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "livesched-webhook-cert"},
				secret); err != nil {
				return err
			}
			secret.Data = nil
			return k8s.Update(ctx, secret)
		}).WithContext(ctx).Should(Succeed())
		Eventually(func(g Gomega) {
			first, second := served(ctx, g, addresses[0]), served(ctx, g, addresses[1])
			g.Expect(first.SerialNumber).NotTo(Equal(before.SerialNumber))
			g.Expect(first.SerialNumber).To(Equal(second.SerialNumber))
		}).WithContext(ctx).Should(Succeed())
		expectRejected(ctx, brokenProfile("refused-all-the-same"))
	})

	It("admits everything while no replica responds, and later changes that keep or mend a broken spec",
		func(ctx context.Context) {
			Expect(one.terminate()).To(BeNumerically("<", tolerated))
			Expect(other.terminate()).To(BeNumerically("<", tolerated))
			// Watches are in the audit log when they have ended.
			expectUsed(ctx, manifests(filepath.Join(testcluster.Root(), "config", "webhook")), began)
			for _, c := range []*command{one, other} {
				Expect(c.output.String()).NotTo(Or(ContainSubstring("PRIVATE KEY"), ContainSubstring("forbidden")))
			}
			broken := brokenProfile("broken")
			create(ctx, broken)

			start(addresses[0])
			expectRejected(ctx, brokenProfile("another"))
			Eventually(func() error { // livesched writes the status at the same time
				Expect(k8s.Get(ctx, client.ObjectKeyFromObject(broken), broken)).To(Succeed())
				broken.Labels = map[string]string{"team": "batch"}
				return k8s.Update(ctx, broken)
			}).WithContext(ctx).Should(Succeed())
			Eventually(func(g Gomega) {
				g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(broken), broken)).To(Succeed())
				broken.Spec.PercentageOfNodesToScore = ptr.To[int32](7)
				g.Expect(apierrors.IsInvalid(k8s.Update(ctx, broken))).To(BeTrue())
			}).WithContext(ctx).Should(Succeed())
			Eventually(func() error {
				Expect(k8s.Get(ctx, client.ObjectKeyFromObject(broken), broken)).To(Succeed())
				broken.Spec.Plugins, broken.Spec.PluginConfig = nil, nil
				return k8s.Update(ctx, broken)
			}).WithContext(ctx).Should(Succeed())
		})

})

var _ = Describe("The validating webhook with --webhook-cert-dir", func() {
	It("serves the certificate of the directory, and reads it again when it changes", func(ctx context.Context) {
		dir, address := GinkgoT().TempDir(), freeAddress()
		write := func() []byte {
			GinkgoHelper()
			certificate, key, err := certutil.GenerateSelfSignedCertKey("webhook.example", nil, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600)).To(Succeed())
			Expect(os.WriteFile(filepath.Join(dir, "tls.crt"), certificate, 0o600)).To(Succeed())
			block, _ := pem.Decode(certificate)
			return block.Bytes
		}
		first := write()
		livesched("--kubeconfig="+cluster.Kubeconfig(), "--leader-elect=false", "--webhook", "--webhook-bind-address="+
			address, "--webhook-cert-dir="+dir)
		presented := func(g Gomega) []byte {
			conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(ctx, "tcp", address)
			g.Expect(err).NotTo(HaveOccurred())
			defer func() { g.Expect(conn.Close()).To(Succeed()) }()
			c, _ := conn.(*tls.Conn)
			return c.ConnectionState().PeerCertificates[0].Raw
		}
		Eventually(presented).WithContext(ctx).Should(Equal(first))
		Eventually(presented).WithContext(ctx).Should(Equal(write()))
	})
})

// busyWebhook returns a server with livesched's certificate. It refuses the first attempt of each
// review, as livesched does if it has too much to do, and denies the second one. It ends with the
// spec.
func busyWebhook(ctx context.Context) *httptest.Server {
	GinkgoHelper()
	secret := &corev1.Secret{}
	Expect(k8s.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "livesched-webhook-cert"}, secret)).
		To(Succeed())
	certificate, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	Expect(err).NotTo(HaveOccurred())
	var asked sync.Map // by the UID of the review
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if _, before := asked.LoadOrStore(review.Request.UID, true); !before {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID,
			Result: &metav1.Status{Message: "the second attempt"}}
		review.Request = nil
		_ = json.NewEncoder(w).Encode(review)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	DeferCleanup(server.Close)
	return server
}

// peakMemory returns the most resident memory that a process has had.
func peakMemory(c *command) (bytes int) {
	GinkgoHelper()
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(c.cmd.Process.Pid), "status"))
	Expect(err).NotTo(HaveOccurred())
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	_, err = fmt.Sscanf(peak, "%d kB", &bytes)
	Expect(err).NotTo(HaveOccurred())
	return bytes << 10
}

// brokenProfile returns a profile with two errors that the schema does not find.
func brokenProfile(name string) *v1alpha1.SchedulerProfile {
	broken := profile(name)
	broken.Spec.Plugins = &v1alpha1.Plugins{
		Score: v1alpha1.PluginSet{Enabled: []v1alpha1.Plugin{{Name: "NoSuchPlugin"}}}}
	broken.Spec.PluginConfig = []v1alpha1.PluginConfig{{Name: "InterPodAffinity"}}
	broken.Spec.PluginConfig[0].Args.Raw = []byte(`{"hardPodAffinityWeight":101}`)
	return broken
}

// expectRejected creates an object until it is rejected, and returns the error: the API server sees
// the webhook and its authority with a delay.
func expectRejected(ctx context.Context, object *v1alpha1.SchedulerProfile) metav1.Status {
	GinkgoHelper()
	var refused *apierrors.StatusError
	Eventually(func() error {
		attempt := object.DeepCopy()
		err := k8s.Create(ctx, attempt)
		if err == nil {
			Expect(k8s.Delete(ctx, attempt)).To(Succeed())
		}
		Expect(err == nil || errors.As(err, &refused)).To(BeTrue(), "%v", err)
		return err
	}).WithContext(ctx).WithPolling(100 * time.Millisecond).
		Should(And(Satisfy(apierrors.IsInvalid), MatchError(ContainSubstring("admission webhook"))))
	return refused.Status()
}

func webhookConfiguration(ctx context.Context) *admissionregistrationv1.ValidatingWebhookConfiguration {
	GinkgoHelper()
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	Expect(k8s.Get(ctx, types.NamespacedName{Name: "livesched"}, configuration)).To(Succeed())
	return configuration
}

// trusting returns a TLS configuration that trusts the authority of the webhook configuration.
func trusting(ctx context.Context, g Gomega) *tls.Config {
	roots := x509.NewCertPool()
	g.Expect(roots.AppendCertsFromPEM(webhookConfiguration(ctx).Webhooks[0].ClientConfig.CABundle)).To(BeTrue())
	return &tls.Config{RootCAs: roots, ServerName: "livesched-webhook.livesched-system.svc"}
}

// served returns the certificate of a replica, which must be trusted.
func served(ctx context.Context, g Gomega, address string) *x509.Certificate {
	conn, err := (&tls.Dialer{Config: trusting(ctx, g)}).DialContext(ctx, "tcp", address)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(conn.Close()).To(Succeed()) }()
	c, _ := conn.(*tls.Conn)
	return c.ConnectionState().PeerCertificates[0]
}

// ask sends one replica the request for creating a profile, as the API server does.
func ask(ctx context.Context, address string, p *v1alpha1.SchedulerProfile) *admissionv1.AdmissionResponse {
	GinkgoHelper()
	raw, err := json.Marshal(p)
	Expect(err).NotTo(HaveOccurred())
	review := &admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "asked", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: raw},
			Kind: metav1.GroupVersionKind{Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version,
				Kind: "SchedulerProfile"},
		},
	}
	body, err := json.Marshal(review)
	Expect(err).NotTo(HaveOccurred())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+address+admission.Path,
		bytes.NewReader(body))
	Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Content-Type", "application/json")
	transport := &http.Transport{TLSClientConfig: trusting(ctx, Default)}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	Expect(err).NotTo(HaveOccurred())
	defer func() { Expect(response.Body.Close()).To(Succeed()) }()
	Expect(response.StatusCode).To(Equal(http.StatusOK))
	Expect(json.NewDecoder(response.Body).Decode(review)).To(Succeed())
	return review.Response
}

// warnings collects the warnings that a client received. It is safe for concurrent use.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

func (w *warnings) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = nil
}

func (w *warnings) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.texts...)
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

var _ = Describe("livesched beside an account that floods the API server", Ordered, func() {
	const leaseDuration = 6 * time.Second
	var c *command

	BeforeAll(func(ctx context.Context) {
		rights := manifests(filepath.Join(testcluster.Root(), "config", "rbac"))
		createUntilEnd(ctx, rights...)
		createUntilEnd(ctx, manifests(filepath.Join(testcluster.Root(), "config", "flowcontrol"))...)
		expectAuthorized(ctx, rights)
		kubeconfig, err := cluster.KubeconfigAs(account, "system:serviceaccounts", "system:serviceaccounts:"+namespace,
			"system:authenticated")
		Expect(err).NotTo(HaveOccurred())
		c = livesched("--kubeconfig="+kubeconfig, "--leader-election-namespace="+namespace,
			"--leader-elect-lease-duration="+leaseDuration.String(), "--leader-elect-renew-deadline=5s",
			"--leader-elect-retry-period=200ms")
		c.expectReady(ctx)
	})

	It("keeps its lease and binds pods while requests of other accounts get no response", func(ctx context.Context) {
		first := objects.Pod("default", "first", "mine", "10m", "10Mi")
		create(ctx, profile("mine"), objects.Node("n", "8", "16Gi", nil), first)
		expectBound(ctx, first)
		transitions := leaseOf(ctx).Spec.LeaseTransitions

		By("flooding the API server")
		flood(ctx)
		By("creating pods")

		began, pods := time.Now(), 0
		for ; pods < 5 || time.Since(began) < leaseDuration+time.Second; pods++ {
			pod := objects.Pod("default", fmt.Sprintf("meanwhile-%d", pods), "mine", "10m", "10Mi")
			create(ctx, pod)
			expectBound(ctx, pod)
			Expect(k8s.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
		}
		By("checking the lease")
		GinkgoWriter.Printf("%d pods were bound in %v\n", pods, time.Since(began))
		Expect(c.ended).NotTo(BeClosed())
		lease := leaseOf(ctx)
		Expect(lease.Spec.LeaseTransitions).To(Equal(transitions))
		Expect(lease.Spec.RenewTime.Time).To(BeTemporally(">", began.Add(leaseDuration/2)), "it is renewed")
		// More requests of this priority may be served after a while, but the flood takes their
		// room.
		Eventually(noResponse).WithArguments(ctx).Should(Succeed(), "the API server is still at its limits")
	})
})

func leaseOf(ctx context.Context) *coordinationv1.Lease {
	GinkgoHelper()
	lease := &coordinationv1.Lease{}
	Expect(k8s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "livesched"}, lease)).To(Succeed())
	return lease
}

// flood lets an account make more requests than the API server serves at the same time, until the
// end of the spec. A webhook holds each of them, so that they take the API server's limits and no
// CPU time.
func flood(ctx context.Context) {
	GinkgoHelper()
	over := make(chan struct{})
	webhook := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	DeferCleanup(webhook.Close)
	createUntilEnd(ctx,
		&rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "operator"},
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"},
				Verbs: []string{"create"}}},
		},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "operator"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "operator"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault,
				Name: "operator"}},
		},
		&admissionv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "operator"},
			Webhooks: []admissionv1.ValidatingWebhook{{
				Name: "hold.operator.example",
				ClientConfig: admissionv1.WebhookClientConfig{
					URL:      ptr.To(webhook.URL),
					CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: webhook.Certificate().Raw}),
				},
				Rules: []admissionv1.RuleWithOperations{{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
						Resources: []string{"configmaps"}},
				}},
				NamespaceSelector: &metav1.LabelSelector{
					MatchLabels: map[string]string{corev1.LabelMetadataName: metav1.NamespaceDefault}},
				SideEffects:             ptr.To(admissionv1.SideEffectClassNone),
				AdmissionReviewVersions: []string{"v1"},
				TimeoutSeconds:          ptr.To[int32](30),
			}},
		},
	)
	kube, err := clientset.NewForConfig(configAs("system:serviceaccount:default:operator"))
	Expect(err).NotTo(HaveOccurred())
	create := func(ctx context.Context) error {
		_, err := kube.CoreV1().ConfigMaps(metav1.NamespaceDefault).
			Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "operator-"}},
				metav1.CreateOptions{})
		return err
	}
	Eventually(func() error { // the API server sees permissions and webhooks with a delay
		ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		return create(ctx)
	}).WithContext(ctx).Should(MatchError(context.DeadlineExceeded))
	flooding, end := context.WithCancel(context.WithoutCancel(ctx))
	var requests sync.WaitGroup
	DeferCleanup(func() {
		end()
		close(over)
		requests.Wait()
	})
	for range 60 {
		requests.Go(func() {
			for flooding.Err() == nil {
				_ = create(flooding) // in the end, each one fails
			}
		})
	}
	Eventually(noResponse).WithArguments(ctx).Should(Succeed())
}

// noResponse returns nil if the API server does not respond to a third account, which has the same
// priority as the one that floods it.
func noResponse(ctx context.Context) error {
	kube, err := clientset.NewForConfig(configAs("system:serviceaccount:default:third"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	_, err = kube.CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(ctx, "any", metav1.GetOptions{})
	if !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("it responded: %w", err)
	}
	return nil
}

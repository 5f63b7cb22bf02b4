// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

var _ = Describe("The admission policy of config/webhook", Ordered, func() {
	var stolen client.Client // has the token of livesched's service account

	BeforeAll(func(ctx context.Context) {
		created := append(manifests(filepath.Join(testcluster.Root(), "config", "rbac")),
			manifests(filepath.Join(testcluster.Root(), "config", "webhook"))...)
		createUntilEnd(ctx, created...)
		expectAuthorized(ctx, created)
		stolen = clientOf(ctx, client.ObjectKey{Namespace: namespace, Name: "livesched"})
		// The API server sees a new policy with a delay.
		Eventually(func() error {
			configuration := webhookConfiguration(ctx)
			configuration.Webhooks[0].TimeoutSeconds = ptr.To[int32](1)
			return stolen.Update(ctx, configuration, client.DryRunAll)
		}).WithContext(ctx).Should(MatchError(ContainSubstring("livesched may change only caBundle of the webhooks")))
	})

	It("lets livesched's token change caBundle", func(ctx context.Context) {
		configuration := webhookConfiguration(ctx)
		authority, _, err := certutil.GenerateSelfSignedCertKey("webhook.example", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		configuration.Webhooks[0].ClientConfig.CABundle = authority
		Expect(stolen.Update(ctx, configuration)).To(Succeed())
		Expect(webhookConfiguration(ctx).Webhooks[0].ClientConfig.CABundle).To(Equal(authority))
		configuration.Webhooks[0].ClientConfig.CABundle = nil
		Expect(stolen.Update(ctx, configuration)).To(Succeed())
	})

	DescribeTable("does not let livesched's token change", func(ctx context.Context,
		change func(*admissionregistrationv1.ValidatingWebhookConfiguration)) {
		before := webhookConfiguration(ctx)
		after := before.DeepCopy()
		change(after)
		err := stolen.Update(ctx, after)
		Expect(err).To(And(Satisfy(apierrors.IsForbidden),
			MatchError(ContainSubstring("ValidatingAdmissionPolicy 'livesched-webhook'"))))
		Expect(webhookConfiguration(ctx)).To(Equal(before))
		Expect(k8s.Update(ctx, after, client.DryRunAll)).To(Succeed(), "the change is valid, and others may make it")
	},
		Entry("the address", func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			c.Webhooks[0].ClientConfig.Service, c.Webhooks[0].ClientConfig.URL = nil,
				ptr.To("https://evil.example/validate")
		}),
		Entry("the Service", func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			c.Webhooks[0].ClientConfig.Service.Namespace = "default"
		}),
		Entry("the rules", func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			c.Webhooks[0].Rules[0].APIGroups, c.Webhooks[0].Rules[0].Resources = []string{""}, []string{"secrets"}
		}),
		Entry("failurePolicy", func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			c.Webhooks[0].FailurePolicy = ptr.To(admissionregistrationv1.Fail)
		}),
		Entry("matchPolicy", func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			c.Webhooks[0].MatchPolicy = ptr.To(admissionregistrationv1.Exact)
		}),
		Entry("the selector of objects", func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			c.Webhooks[0].ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}),
		Entry("the selector of namespaces", func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			c.Webhooks[0].NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}),
		Entry("sideEffects", func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			c.Webhooks[0].SideEffects = ptr.To(admissionregistrationv1.SideEffectClassNoneOnDryRun)
		}),
		Entry("timeoutSeconds", func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			c.Webhooks[0].TimeoutSeconds = ptr.To[int32](30)
		}),
		Entry("admissionReviewVersions", func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			c.Webhooks[0].AdmissionReviewVersions = []string{"v1", "v1beta1"}
		}),
		Entry("matchConditions", func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			c.Webhooks[0].MatchConditions = []admissionregistrationv1.MatchCondition{
				{Name: "never", Expression: "false"}}
		}),
		Entry("the number of webhooks", func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			another := *c.Webhooks[0].DeepCopy()
			another.Name = "another.livesched.io"
			c.Webhooks = append(c.Webhooks, another)
		}),
		Entry("its name", func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			c.Webhooks[0].Name = "another.livesched.io"
		}),
		Entry("labels", func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			c.Labels = map[string]string{"a": "b"}
		}),
		Entry("annotations", func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			c.Annotations = map[string]string{"cert-manager.io/inject-ca-from": "default/mine"}
		}),
		Entry("finalizers", func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			c.Finalizers = []string{"example.com/keep"}
		}),
	)
})

var _ = Describe("The admission policy of config/tenancy", Ordered, func() {
	var lists, none *corev1.Namespace

	BeforeAll(func(ctx context.Context) {
		lists = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "lists-",
			Annotations: map[string]string{"livesched.io/scheduler-names": "batch, gpu"}}}
		none = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "none-"}}
		create(ctx, lists, none)
		attempt := func(ctx context.Context) error {
			return k8s.Create(ctx, objects.Pod(none.Name, "p", "unlisted", "1", "1Gi"), client.DryRunAll)
		}
		// The API server sees with a delay that a policy is new, or gone: the pods of other specs
		// use names that their namespace does not list.
		DeferCleanup(func(ctx context.Context) { Eventually(attempt).WithContext(ctx).Should(Succeed()) })
		createUntilEnd(ctx, manifests(filepath.Join(testcluster.Root(), "config", "tenancy"))...)
		Eventually(attempt).WithContext(ctx).Should(Satisfy(apierrors.IsForbidden))
	})

	DescribeTable("decides which scheduler names pods may use:", func(ctx context.Context, listed bool, name string,
		allowed bool) {
		ns := none
		if listed {
			ns = lists
		}
		err := k8s.Create(ctx, objects.Pod(ns.Name, "p", name, "1", "1Gi"), client.DryRunAll)
		if allowed {
			Expect(err).NotTo(HaveOccurred())
			return
		}
		Expect(err).To(And(Satisfy(apierrors.IsForbidden), MatchError(ContainSubstring(
			"the namespace "+ns.Name+" may not use the scheduler name "+name+
				": its annotation livesched.io/scheduler-names does not list it"))))
	},
		Entry("the first that the namespace lists", true, "batch", true),
		Entry("another that it lists", true, "gpu", true),
		Entry("one that it does not list", true, "untainted", false),
		Entry("a part of a name", true, "bat", false),
		Entry("the default name", true, "default-scheduler", true),
		Entry("a name in a namespace without a list", false, "batch", false),
		Entry("the default name in a namespace without a list", false, "default-scheduler", true),
	)

	It("follows changes of the list", func(ctx context.Context) {
		none.Annotations = map[string]string{"livesched.io/scheduler-names": "batch"}
		Expect(k8s.Update(ctx, none)).To(Succeed())
		Eventually(func() error {
			return k8s.Create(ctx, objects.Pod(none.Name, "p", "batch", "1", "1Gi"), client.DryRunAll)
		}).WithContext(ctx).Should(Succeed())
	})
})

var _ = Describe("The admission policy of config/by-namespace", func() {
	It("gives pods that name no scheduler the scheduler name of their namespace", func(ctx context.Context) {
		labeled := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "labeled-",
			Labels: map[string]string{"livesched.io/scheduler-name": "binpack"}}}
		other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "other-"}}
		create(ctx, labeled, other)
		createUntilEnd(ctx, manifests(filepath.Join(testcluster.Root(), "config", "by-namespace"))...)
		created := func(in *corev1.Namespace, schedulerName, node string) string {
			pod := objects.Pod(in.Name, "p", schedulerName, "1", "1Gi")
			pod.Spec.NodeName = node
			Expect(k8s.Create(ctx, pod, client.DryRunAll)).To(Succeed())
			return pod.Spec.SchedulerName
		}
		// The API server sees a new policy with a delay.
		Eventually(created).WithArguments(labeled, "", "").WithContext(ctx).Should(Equal("binpack"))
		Expect(created(labeled, "default-scheduler", "")).
			To(Equal("binpack"), "the API server cannot tell it from no name")
		Expect(created(labeled, "gpu", "")).To(Equal("gpu"))
		Expect(created(labeled, "", "n")).To(Equal("default-scheduler"))
		Expect(created(other, "", "")).To(Equal("default-scheduler"))
	})
})

// clientOf returns a client with a token of a service account.
func clientOf(ctx context.Context, key client.ObjectKey) client.Client {
	GinkgoHelper()
	request := &authenticationv1.TokenRequest{}
	Expect(k8s.SubResource("token").
		Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}},
			request)).To(Succeed())
	config := rest.AnonymousClientConfig(cluster.Config)
	config.BearerToken = request.Status.Token
	c, err := client.New(config, client.Options{Scheme: k8s.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	return c
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/cmd/livesched/app"
	"github.com/livesched/livesched/test/dashboarddata"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

var _ = Describe("The dashboard on the secure port", func() {
	// ui runs livesched for the rest of a spec, and returns the URL of its dashboard.
	ui := func(on bool) string {
		GinkgoHelper()
		apis := runAnswering(func(o *app.Options) { o.Secure.UI = on })
		return strings.TrimSuffix(apis, "apis/livesched.io/v1alpha1/") + "ui/"
	}

	It("shows each user what that user may see", func(ctx context.Context) {
		for _, object := range manifests(filepath.Join(testcluster.Root(), "config", "rbac")) {
			if object.GetName() == "livesched-viewer" {
				createUntilEnd(ctx, object)
			}
		}
		viewer := serviceAccount(ctx, "looks-at-pages", "livesched-viewer", "/ui/")
		createUntilEnd(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "test-pages-only"},
			Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/ui/*"}, Verbs: []string{"get"}}}})
		framed := serviceAccount(ctx, "opens-pages", "test-pages-only", "/ui/")
		nobody := serviceAccount(ctx, "looks-at-nothing", "", "")
		create(ctx, profile("mine"), objects.Node("n", "8", "16Gi", nil),
			objects.Pod("default", "large", "mine", "64", "1Gi"))
		url := ui(true)

		By("refusing those without credentials, or without the permission")
		Expect(getAs(ctx, "", url).Code).To(Equal(http.StatusUnauthorized))
		Expect(getAs(ctx, nobody, url)).To(And(HaveField("Code", http.StatusForbidden),
			HaveField("Body", ContainSubstring(`cannot get path "/ui/"`))))

		By("answering a viewer")
		Expect(getAs(ctx, viewer, url)).To(And(HaveField("Code", http.StatusOK),
			HaveField("Body", ContainSubstring(`hx-get="/ui/parts/kinds"`))))
		Eventually(func(g Gomega) {
			g.Expect(getAs(ctx, viewer, url+"parts/kinds").Body).To(ContainSubstring(`href="/ui/pods/default/large"`))
			g.Expect(getAs(ctx, viewer, url+"parts/profiles").Body).To(ContainSubstring("mine"))
			g.Expect(getAs(ctx, viewer, url+"parts/health").Body).To(ContainSubstring("leader"))
		}).WithContext(ctx).Should(Succeed())
		Expect(getAs(ctx, viewer, url+"pods/default/large").Body).To(ContainSubstring("cpu"))
		Expect(getAs(ctx, viewer, url+"decisions").Code).To(Equal(http.StatusOK))

		By("naming what the viewer may not see")
		Expect(getAs(ctx, viewer, url+"parts/room").Body).To(ContainSubstring("the permission to list nodes"))
		Expect(getAs(ctx, framed, url+"parts/kinds").Body).To(And(ContainSubstring("You may not see this."),
			ContainSubstring("cannot list resource &#34;pendingkinds&#34;")))
		Expect(getAs(ctx, framed, url+"parts/profiles").Body).To(ContainSubstring("You may not see this."))
		Expect(getAs(ctx, framed, url+"pods/default/large").Code).To(Equal(http.StatusForbidden))
		admin := getAs(ctx, cluster.Config.BearerToken, url+"parts/room")
		Expect(admin.Body).To(And(ContainSubstring("/ui/nodes"), Not(ContainSubstring("permission"))))

		By("comparing profiles, with the room of nodes for those who may list nodes")
		compare := url + "compare?profile=mine&with=other&pods=pending"
		create(ctx, profile("other"))
		Expect(getAs(ctx, viewer, compare)).To(And(HaveField("Code", http.StatusOK),
			HaveField("Body", ContainSubstring("You need the permission to list nodes")),
			HaveField("Body", ContainSubstring("other places all pods where mine does."))))
		Expect(getAs(ctx, framed, compare).Code).To(Equal(http.StatusForbidden))
		Expect(getAs(ctx, cluster.Config.BearerToken, compare).Body).To(ContainSubstring("data-compared="))

		By("answering 404 for a pod that does not exist")
		Expect(getAs(ctx, viewer, url+"pods/default/gone").Code).To(Equal(http.StatusNotFound))
	})

	It("shows the load of days from Prometheus to those who may see that of hours", func(ctx context.Context) {
		for _, object := range manifests(filepath.Join(testcluster.Root(), "config", "rbac")) {
			if object.GetName() == "livesched-viewer" {
				createUntilEnd(ctx, object)
			}
		}
		viewer := serviceAccount(ctx, "looks-at-days", "livesched-viewer", "/ui/")
		createUntilEnd(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "test-days-only"},
			Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/ui/*"}, Verbs: []string{"get"}}}})
		framed := serviceAccount(ctx, "opens-days", "test-days-only", "/ui/")
		prometheus := &dashboarddata.Prometheus{Token: "of-livesched"}
		server := httptest.NewServer(prometheus)
		DeferCleanup(server.Close)
		token := filepath.Join(GinkgoT().TempDir(), "token")
		Expect(os.WriteFile(token, []byte(prometheus.Token), 0o600)).To(Succeed())
		apis := runAnswering(func(o *app.Options) {
			o.Secure.UI, o.Secure.UIPrometheus.URL, o.Secure.UIPrometheus.TokenFile = true, server.URL, token
		})
		url := strings.TrimSuffix(apis, "apis/livesched.io/v1alpha1/") + "ui/parts/health?last=7d"

		Expect(getAs(ctx, framed, url).Body).To(ContainSubstring("You may not see this."))
		Expect(prometheus.Asked.Load()).To(BeZero())
		Eventually(func() string { return getAs(ctx, viewer, url).Body }).Should(ContainSubstring("untilBound"))
		Expect(getAs(ctx, viewer, url).Body).NotTo(Or(ContainSubstring(prometheus.Token), ContainSubstring(server.URL)))
	})

	It("is off by default", func(ctx context.Context) {
		url := ui(false)
		Eventually(func() int { return getAs(ctx, cluster.Config.BearerToken, url).Code }).
			Should(Equal(http.StatusNotFound))
	})
})

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/internal/scheduler/capture"
	"github.com/livesched/livesched/internal/scheduler/plugins"
	"github.com/livesched/livesched/internal/scheduler/replay"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

var _ = Describe("Snapshots on the secure port", func() {
	It("are for those who may get them, and reproduce every decision", func(ctx context.Context) {
		for _, object := range manifests(filepath.Join(testcluster.Root(), "config", "rbac")) {
			if object.GetName() == "livesched-debugger" {
				createUntilEnd(ctx, object)
			}
		}
		createUntilEnd(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "redacted-snapshots"},
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{"livesched.io"}, Resources: []string{"snapshots"},
					ResourceNames: []string{"redacted"}, Verbs: []string{"get"}},
			}})
		user := func(name, role string, may ...string) (token string) {
			token = serviceAccount(ctx, name, "", "")
			if role == "" {
				return token
			}
			bindRole(ctx, name, role, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name})
			for _, snapshot := range may {
				expectMay(ctx, "system:serviceaccount:"+namespace+":"+name, authorizationv1.ResourceAttributes{
					Verb: "get", Group: "livesched.io", Resource: "snapshots", Name: snapshot,
				})
			}
			return token
		}
		debugger := user("debugs", "livesched-debugger", "plain", "redacted")
		limited := user("sees-no-names", "redacted-snapshots", "redacted")
		stranger := user("sees-no-snapshot", "")

		one, two, large := objects.Pod("default", "secret-one", "mine", "1", "1Gi"),
			objects.Pod("default", "secret-two", "mine", "1", "1Gi"),
			objects.Pod("default", "secret-large", "mine", "64", "1Gi")
		create(ctx, profile("mine"), objects.Node("secret-node-1", "8", "16Gi", nil),
			objects.Node("secret-node-2", "8", "16Gi", nil), one, two, large)
		o := testcluster.Options()
		o.Secure.Port, o.Secure.BindAddress = freePort(), "127.0.0.1"
		run, err := cluster.Run(context.Background(), GinkgoLogr, o)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(run.Stop(tolerated)).To(Succeed()) })
		base := "https://" + net.JoinHostPort(o.Secure.BindAddress, strconv.Itoa(o.Secure.Port)) +
			"/apis/livesched.io/v1alpha1/snapshots/"
		expectBound(ctx, one)
		expectBound(ctx, two)
		expectPodScheduled(ctx, large, corev1.ConditionFalse)

		registry, err := plugins.NewRegistry(nil)
		Expect(err).NotTo(HaveOccurred())
		// reproduces takes a snapshot and makes its decisions again.
		reproduces := func(g Gomega, token, name string) *capture.Snapshot {
			answer := getAs(ctx, token, base+name)
			g.Expect(answer.Code).To(Equal(http.StatusOK), answer.Body)
			snapshot, err := capture.Read(strings.NewReader(answer.Body), capture.DefaultLimits)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(snapshot.Pending).To(HaveLen(1), "the informers have the pods")
			state, err := replay.New(ctx, snapshot, registry)
			g.Expect(err).NotTo(HaveOccurred())
			defer state.Close()
			report, err := state.Decide(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(report.Different).To(BeEmpty())
			g.Expect(report.Left).To(BeEmpty())
			g.Expect(report.Same).To(BeNumerically(">=", 3))
			return snapshot
		}
		Eventually(func(g Gomega) {
			snapshot := reproduces(g, debugger, "plain")
			g.Expect(snapshot.Header.Profiles).
				To(HaveExactElements(And(HaveField("Name", "mine"), HaveField("Reproducible", true))))
			g.Expect(snapshot.Nodes).
				To(ConsistOf(HaveField("Name", "secret-node-1"), HaveField("Name", "secret-node-2")))
			g.Expect(snapshot.Pending[0].Name).To(Equal("secret-large"))
		}).WithContext(ctx).Should(Succeed())
		Eventually(func(g Gomega) {
			snapshot := reproduces(g, limited, "redacted")
			g.Expect(snapshot.Header.Redacted).To(BeTrue())
			g.Expect(snapshot.Nodes).To(HaveEach(HaveField("Name", HavePrefix("x"))))
		}).WithContext(ctx).Should(Succeed())
		Expect(getAs(ctx, debugger, base+"plain?decisions=0").Code).To(Equal(http.StatusOK))

		By("refusing what is not permitted")
		for _, refused := range []struct{ token, name string }{{stranger, "redacted"}, {stranger, "plain"},
			{limited, "plain"}} {
			answer := getAs(ctx, refused.token, base+refused.name)
			Expect(answer.Code).To(Equal(http.StatusForbidden), answer.Body)
			Expect(answer.Body).To(ContainSubstring(`cannot get resource \"snapshots\" in API group \"livesched.io\" ` +
				`at the cluster scope`))
		}
	})
})

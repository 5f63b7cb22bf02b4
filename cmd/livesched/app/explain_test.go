// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/testcluster"
)

var _ = Describe("Explanations on the secure port", func() {
	const group = "/apis/livesched.io/v1alpha1/namespaces/"
	explanation := authorizationv1.ResourceAttributes{Namespace: "default", Verb: "get", Group: "livesched.io",
		Resource: "podexplanations"}
	nodes := authorizationv1.ResourceAttributes{Verb: "list", Resource: "nodes"}

	// viewer returns a token for a new service account that may view pods in the namespace default.
	viewer := func(ctx context.Context, name string) (token string) {
		GinkgoHelper()
		token = serviceAccount(ctx, name, "", "")
		createUntilEnd(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "test-" + name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "livesched-viewer"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
		})
		expectMay(ctx, "system:serviceaccount:"+namespace+":"+name, explanation)
		return token
	}

	It("are for those who may get them in the namespace, with names of nodes for those who may list nodes",
		func(ctx context.Context) {
			for _, object := range manifests(filepath.Join(testcluster.Root(), "config", "rbac")) {
				if object.GetName() == "livesched-viewer" {
					createUntilEnd(ctx, object)
				}
			}
			limited, stranger, admin := viewer(ctx, "limited"), serviceAccount(ctx, "explains-nothing", "", ""),
				viewer(ctx, "lists-nodes")
			createUntilEnd(ctx, &rbacv1.ClusterRole{
				ObjectMeta: metav1.ObjectMeta{Name: "list-nodes"},
				Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"},
					Verbs: []string{"list"}}},
			})
			bindRole(ctx, "lists-nodes", "list-nodes",
				rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "lists-nodes"})
			expectMay(ctx, "system:serviceaccount:"+namespace+":lists-nodes", nodes)

			pod := objects.Pod("default", "large", "mine", "64", "1Gi")
			create(ctx, profile("mine"), objects.Node("secret-node", "8", "16Gi", nil), pod)
			o := testcluster.Options()
			o.Secure.Port, o.Secure.BindAddress = freePort(), "127.0.0.1"
			run, err := cluster.Run(context.Background(), GinkgoLogr, o)
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(func() { Expect(run.Stop(tolerated)).To(Succeed()) })
			base := "https://" + net.JoinHostPort(o.Secure.BindAddress, strconv.Itoa(o.Secure.Port)) + group
			expectPodScheduled(ctx, pod, corev1.ConditionFalse)

			var got v1alpha1.PodExplanation
			Eventually(func(g Gomega) {
				answer := getAs(ctx, admin, base+"default/podexplanations/large")
				g.Expect(answer.Code).To(Equal(http.StatusOK), answer.Body)
				g.Expect(json.Unmarshal([]byte(answer.Body), &got)).To(Succeed())
				g.Expect(answer.Body).To(ContainSubstring("secret-node"))
			}).WithContext(ctx).Should(Succeed())
			Expect(got.Kind).To(Equal("PodExplanation"))
			Expect(got.APIVersion).To(Equal("livesched.io/v1alpha1"))
			Expect(got.Metadata.UID).To(Equal(pod.UID))
			Expect(got.Pending.Groups).To(HaveExactElements(And(
				HaveField("Nodes", int32(1)),
				HaveField("Refusals",
					HaveExactElements(And(HaveField("Plugin", "NodeResourcesFit"),
						HaveField("Reason", v1alpha1.ReasonInsufficientResource)))),
			)))

			answer := getAs(ctx, admin, base+"default/podexplanations/large?node=secret-node")
			Expect(json.Unmarshal([]byte(answer.Body), &got)).To(Succeed(), answer.Body)
			Expect(got.Node).NotTo(BeNil())
			Expect(got.Node.Fits).To(BeFalse())
			Expect(got.Node.Refusals).To(HaveExactElements(HaveField("Reason", v1alpha1.ReasonInsufficientResource)))

			answer = getAs(ctx, limited, base+"default/podexplanations/large")
			Expect(answer.Code).To(Equal(http.StatusOK), answer.Body)
			Expect(answer.Body).To(And(ContainSubstring("NodeResourcesFit"), Not(ContainSubstring("secret-node"))))

			for _, refused := range []struct {
				token, path string
				code        int
				reason      metav1.StatusReason
				message     string
			}{
				{"", "default/podexplanations/large", http.StatusUnauthorized, metav1.StatusReasonUnauthorized,
					"Unauthorized"},
				{"no-token-at-all", "default/podexplanations/large", http.StatusUnauthorized,
					metav1.StatusReasonUnauthorized, "Unauthorized"},
				{stranger, "default/podexplanations/large", http.StatusForbidden, metav1.StatusReasonForbidden,
					`podexplanations.livesched.io "large" is forbidden: User ` +
						`"system:serviceaccount:livesched-system:explains-nothing" cannot get resource ` +
						`"podexplanations" in API group "livesched.io" in the namespace "default"`},
				{limited, namespace + "/podexplanations/large", http.StatusForbidden, metav1.StatusReasonForbidden,
					`in the namespace "livesched-system"`},
				{limited, "default/podexplanations", http.StatusForbidden, metav1.StatusReasonForbidden,
					`cannot list resource "podexplanations"`},
				{limited, "default/podexplanations/large?node=secret-node", http.StatusForbidden,
					metav1.StatusReasonForbidden,
					`nodes "secret-node" is forbidden: you may not list nodes`},
				{admin, "default/podexplanations/large?node=no-node", http.StatusNotFound, metav1.StatusReasonNotFound,
					`nodes "no-node" not found`},
				{limited, "default/podexplanations/nobody", http.StatusNotFound, metav1.StatusReasonNotFound,
					`pods "nobody" not found`},
			} {
				answer := getAs(ctx, refused.token, base+refused.path)
				var status metav1.Status
				Expect(json.Unmarshal([]byte(answer.Body), &status)).To(Succeed(), answer.Body)
				Expect(answer.Code).To(Equal(refused.code), answer.Body)
				Expect(status.Kind).To(Equal("Status"))
				Expect(status.Reason).To(Equal(refused.reason))
				Expect(status.Message).To(ContainSubstring(refused.message))
			}
		})
})

// expectMay waits until the API server permits a user something.
func expectMay(ctx context.Context, user string, what authorizationv1.ResourceAttributes) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user,
			ResourceAttributes: &what}}
		g.Expect(k8s.Create(ctx, review)).To(Succeed())
		g.Expect(review.Status.Allowed).To(BeTrue())
	}).WithContext(ctx).Should(Succeed())
}

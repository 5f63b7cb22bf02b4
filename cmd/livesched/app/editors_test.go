// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/test/testcluster"
)

// A writer of policies is as powerful as an operator of the cluster: an editor of profiles is not
// one.
var _ = Describe("The roles of config/rbac for people", func() {
	may := func(ctx context.Context, user, verb, resource string) bool {
		GinkgoHelper()
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{Group: v1alpha1.GroupVersion.Group,
				Verb: verb, Resource: resource},
		}}
		Expect(k8s.Create(ctx, review)).To(Succeed())
		return review.Status.Allowed
	}

	DescribeTable("let an editor write one kind only", func(ctx context.Context, role, writes, reads string) {
		var created []client.Object
		for _, object := range manifests(filepath.Join(testcluster.Root(), "config", "rbac")) {
			if object.GetName() == role {
				created = append(created, object)
			}
		}
		Expect(created).To(HaveLen(1))
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "editor-" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: role}},
		}
		create(ctx, created[0], binding)
		DeferCleanup(k8s.Delete, created[0])
		DeferCleanup(k8s.Delete, binding)
		// The authorizer sees new permissions with a delay.
		Eventually(may).WithContext(ctx).WithArguments(role, "update", writes).Should(BeTrue())
		for _, verb := range []string{"create", "update", "patch", "delete"} {
			Expect(may(ctx, role, verb, writes)).To(BeTrue(), verb)
			for _, other := range []string{"schedulerprofiles", "schedulingpolicies"} {
				if other != writes {
					Expect(may(ctx, role, verb, other)).To(BeFalse(), "%s %s", verb, other)
				}
			}
		}
		if reads != "" {
			Expect(may(ctx, role, "get", reads)).To(BeTrue())
		}
	},
		Entry("profiles", "livesched-profile-editor", "schedulerprofiles", "schedulingpolicies"),
		Entry("policies", "livesched-policy-editor", "schedulingpolicies", ""),
	)
})

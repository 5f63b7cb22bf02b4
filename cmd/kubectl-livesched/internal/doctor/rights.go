// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/livesched/livesched/config/rbac"
)

// rights checks that livesched has the permissions of config/rbac.
func (e *examination) rights(ctx context.Context) {
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(rbac.Role, &role); err != nil {
		e.unreadable(askForPermission, "the embedded role", err)
		return
	}
	var missing []string
	for _, review := range reviews(role.Rules) {
		e.account(&review.Spec)
		if err := e.Client.Create(ctx, review); err != nil {
			e.unreadable(askForPermission, "the permissions of a ServiceAccount (create subjectaccessreviews)", err)
			return
		}
		if !review.Status.Allowed {
			missing = append(missing, describe(review.Spec.ResourceAttributes))
		}
	}
	account, advice := fmt.Sprintf("ServiceAccount %s/%s", e.Namespace, e.ServiceAccount),
		"apply config/rbac, or name the ServiceAccount with --service-account"
	if e.User != "" {
		account, advice = "User "+e.User, "apply config/kubeadm, or bind the roles of config/rbac to this user"
	}
	if len(missing) > 0 {
		e.add(Failed, advice, "%s may not %s", account, strings.Join(missing, ", "))
		return
	}
	e.add(OK, "", "%s has the permissions of config/rbac/role.yaml", account)
}

// account makes a review one of livesched's user or ServiceAccount.
func (e *examination) account(spec *authorizationv1.SubjectAccessReviewSpec) {
	if e.User != "" {
		spec.User, spec.Groups = e.User, []string{"system:authenticated"}
		return
	}
	spec.User = fmt.Sprintf("system:serviceaccount:%s:%s", e.Namespace, e.ServiceAccount)
	spec.Groups = []string{"system:serviceaccounts", "system:serviceaccounts:" + e.Namespace, "system:authenticated"}
}

// reviews returns a review for each permission of the rules.
func reviews(rules []rbacv1.PolicyRule) (all []*authorizationv1.SubjectAccessReview) {
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					resource, subresource, _ := strings.Cut(resource, "/")
					attributes := &authorizationv1.ResourceAttributes{Group: group, Resource: resource,
						Subresource: subresource, Verb: verb}
					if len(rule.ResourceNames) > 0 {
						attributes.Name = rule.ResourceNames[0]
					}
					all = append(all,
						&authorizationv1.SubjectAccessReview{
							Spec: authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: attributes}})
				}
			}
		}
	}
	return all
}

func describe(attributes *authorizationv1.ResourceAttributes) string {
	resource := attributes.Resource
	if attributes.Subresource != "" {
		resource += "/" + attributes.Subresource
	}
	if attributes.Group != "" {
		resource += "." + attributes.Group
	}
	return attributes.Verb + " " + resource
}

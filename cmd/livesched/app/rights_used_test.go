// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// right is one verb on one resource, as an audit log has it. A ClusterRoleBinding grants it in all
// namespaces: then, namespace is empty. An empty name stands for all names.
type right struct{ namespace, group, resource, name, verb string }

func (r right) String() string {
	text := r.verb + " " + r.resource
	if r.group != "" {
		text += "." + r.group
	}
	if r.name != "" {
		text += " " + r.name
	}
	if r.namespace != "" {
		text += " in " + r.namespace
	}
	return text
}

// unseen are the rights that need not be in the audit log of the specs, by their text, each with
// the reason.
var unseen = map[string]string{
	// The API server asks its authorizer for these besides the right to make the request.
	"update pods/finalizers": "to create a claim that a pod owns; test/e2e/controllers has " +
		"the admission plugin that asks",
	"patch resourceclaims/binding.resource.k8s.io":  "to release a claim of a pod, with patch resourceclaims/status",
	"update resourceclaims/binding.resource.k8s.io": "to allocate a claim, with update resourceclaims/status",
	// These need a fault or a conflict, which other tests cause.
	"get pods": "after a binding whose outcome is unknown, and of pods that a " +
		"new leader waits for: test/e2e/binding",
	"get resourceclaims.resource.k8s.io": "after a conflict in the plugin DynamicResources, and of claims " +
		"that a new leader waits for",
	"patch events.events.k8s.io":                   "of an Event that repeats: internal/scheduler/eventwriter",
	"patch events":                                 "of client-go's recorder of core Events, if an Event repeats",
	"get controllerrevisions.apps in " + namespace: "after a conflict with a revision of the same name: controllers",
}

// expectUsed waits until the audit log shows a request of livesched's account for each right that
// the objects grant it.
func expectUsed(ctx context.Context, objects []client.Object, since time.Time) {
	GinkgoHelper()
	granted := rightsOf(objects, serviceAccountSubject)
	Expect(granted).NotTo(BeEmpty())
	Eventually(func() (unused []string) {
		requests := audited(account, since)
		for r := range granted {
			if _, ok := unseen[r.String()]; !ok && !slices.ContainsFunc(requests, r.allows) {
				unused = append(unused, r.String())
			}
		}
		slices.Sort(unused)
		return unused
	}).WithContext(ctx).WithTimeout(20*time.Second).WithPolling(time.Second).
		Should(BeEmpty(), "remove these rights, or show in a spec what they are for")
}

// allows reports whether the right was needed for a request.
func (r right) allows(e auditv1.Event) bool {
	if e.ObjectRef == nil || e.ResponseStatus == nil || e.ResponseStatus.Code == 403 {
		return false
	}
	resource := e.ObjectRef.Resource
	if e.ObjectRef.Subresource != "" {
		resource += "/" + e.ObjectRef.Subresource
	}
	verb := e.Verb == r.verb
	if r.verb == "list" {
		// Informers watch instead, which lists objects as well. They list if the API server cannot
		// stream lists.
		verb = verb || e.Verb == "watch"
	}
	return verb && r.resource == resource && r.group == e.ObjectRef.APIGroup &&
		(r.name == "" || r.name == e.ObjectRef.Name) && (r.namespace == "" || r.namespace == e.ObjectRef.Namespace)
}

// serviceAccountSubject is livesched's account in the bindings of config/rbac.
var serviceAccountSubject = rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "livesched"}

// rightsOf returns the rights that the bindings among the objects grant, with the roles among them.
// All bindings must be those of the subject.
func rightsOf(objects []client.Object, subject rbacv1.Subject) sets.Set[right] {
	GinkgoHelper()
	rights := sets.New[right]()
	for _, object := range objects {
		if kind := object.GetObjectKind().GroupVersionKind().Kind; kind != "RoleBinding" &&
			kind != "ClusterRoleBinding" {
			continue
		}
		var binding rbacv1.RoleBinding // a ClusterRoleBinding has the same fields
		Expect(convert(object, &binding)).To(Succeed())
		Expect(binding.Subjects).To(ConsistOf(subject))
		role := slices.IndexFunc(objects, func(o client.Object) bool {
			return o.GetObjectKind().GroupVersionKind().Kind == binding.RoleRef.Kind &&
				o.GetName() == binding.RoleRef.Name
		})
		Expect(role).NotTo(Equal(-1), "role %s", binding.RoleRef.Name)
		var bound rbacv1.ClusterRole // a Role has the same fields
		Expect(convert(objects[role], &bound)).To(Succeed())
		for _, rule := range bound.Rules {
			rights.Insert(rightsOfRule(binding.Namespace, rule)...)
		}
	}
	return rights
}

func rightsOfRule(namespace string, rule rbacv1.PolicyRule) (rights []right) {
	GinkgoHelper()
	Expect(fmt.Sprint(rule)).NotTo(ContainSubstring("*"), "livesched has no rights by pattern")
	Expect(rule.NonResourceURLs).To(BeEmpty())
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, name := range names {
				for _, verb := range rule.Verbs {
					rights = append(rights, right{namespace, group, resource, name, verb})
				}
			}
		}
	}
	return rights
}

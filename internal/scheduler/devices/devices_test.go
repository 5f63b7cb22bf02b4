// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package devices_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestAlternativesOfClaims(t *testing.T) {
	type refs = []corev1.PodResourceClaim
	m := newManaged(t)
	named := func(claim string) corev1.PodResourceClaim {
		return corev1.PodResourceClaim{Name: claim, ResourceClaimName: ptr.To(claim)}
	}
	templated := corev1.PodResourceClaim{Name: "templated", ResourceClaimTemplateName: ptr.To("template")}
	of := func(claim *string) corev1.PodStatus {
		return corev1.PodStatus{ResourceClaimStatuses: []corev1.PodResourceClaimStatus{
			{Name: "templated", ResourceClaimName: claim}}}
	}
	for name, test := range map[string]struct {
		refs   refs
		status corev1.PodStatus
		want   bool
	}{
		"no claim":                     {},
		"a claim without alternatives": {refs: refs{named("exact")}},
		"one of two claims has some":   {refs: refs{named("exact"), named("choice")}, want: true},
		"a claim that is not known":    {refs: refs{named("missing")}, want: true},

		"a template without a claim yet":   {refs: refs{templated}, want: true},
		"the claim of a template":          {refs: refs{templated}, status: of(ptr.To("exact"))},
		"the claim of a template has some": {refs: refs{templated}, status: of(ptr.To("choice")), want: true},
		"a template that needs no claim":   {refs: refs{templated}, status: of(nil)},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod"},
			Spec: corev1.PodSpec{ResourceClaims: test.refs}, Status: test.status}
		for who, managers := range map[string]interface{ HasAlternatives(*corev1.Pod) bool }{
			"process": m.process, "fork": m.fork()} {
			if got := managers.HasAlternatives(pod); got != test.want {
				t.Errorf("%s, %s: %v, want %v", name, who, got, test.want)
			}
		}
	}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package devices_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/devices"
)

func TestClaimsOf(t *testing.T) {
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
		want   []string
		known  bool
	}{
		"no claim": {known: true},
		"two claims": {refs: refs{named("exact"), named("choice")}, want: []string{"exact", "choice"},
			known: true},
		"one of two claims is there": {refs: refs{named("exact"), named("missing")}},

		"a template without a claim yet": {refs: refs{templated}},
		"the claim of a template": {refs: refs{templated}, status: of(ptr.To("exact")), want: []string{"exact"},
			known: true},
		"a template that needs no claim": {refs: refs{templated, named("exact")}, status: of(nil),
			want: []string{"exact"}, known: true},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod"},
			Spec: corev1.PodSpec{ResourceClaims: test.refs}, Status: test.status}
		for who, managers := range map[string]*devices.Managers{"process": m.process, "fork": m.fork()} {
			claims, known := managers.ClaimsOf(pod)
			var got []string
			for _, claim := range claims {
				got = append(got, claim.Name)
			}
			if known != test.known || !slices.Equal(got, test.want) {
				t.Errorf("%s, %s: %v, %v, want %v, %v", name, who, got, known, test.want, test.known)
			}
		}
	}
}

// TestDevicesThatWereAssumedStayTakenAfterUnreserve makes the calls of a failed binding cycle whose
// allocation the API server has stored.
func TestDevicesThatWereAssumedStayTakenAfterUnreserve(t *testing.T) {
	m := newManaged(t)
	claims := m.process.DRA.ResourceClaims()
	stored := allocate(claimOf("free"), "free")
	m.must(claims.SignalClaimPendingAllocation("free", stored))
	stored.ResourceVersion = "2"
	m.must(m.process.AssumeClaim(stored))
	if !claims.MaybeRemoveClaimPendingAllocation("free", false) {
		t.Fatal("no allocation was pending")
	}
	claims.AssumedClaimRestore("default", "free")
	m.expect("after Unreserve", m.process, "free", "taken")
}

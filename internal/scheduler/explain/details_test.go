// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/explain"
)

func claiming(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
	}
}

// detailsOf returns what refuses the pod, and the details of each group.
func detailsOf(x explain.Explanation) []string {
	var out []string
	for _, r := range x.Pending.PodRefusals {
		out = append(out, fmt.Sprintf("pod: %s %s: %s", r.Plugin, r.Reason, r.Detail))
	}
	for _, g := range x.Pending.Groups {
		var refusals []string
		for _, r := range g.Refusals {
			refusals = append(refusals, fmt.Sprintf("%s: %s", r.Reason, r.Detail))
		}
		out = append(out, fmt.Sprintf("%d %s", g.Nodes, strings.Join(refusals, ", ")))
	}
	return out
}

func TestWhatRefusesThePodItselfIsSaidOnce(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "small", "4", "8Gi")
	c.node("n2", "small", "1", "8Gi")
	immediate := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "now"}, VolumeBindingMode: ptr.To(storagev1.VolumeBindingImmediate)}
	c.must(c.objects.Put(immediate))
	c.must(c.objects.Put(&corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("now")},
	}))
	for _, test := range []struct {
		claim   string
		message string
		suggest string
		want    []string
	}{
		{"nope", "The pod cannot be scheduled on any node: the PersistentVolumeClaim nope does not exist.", "Create the PersistentVolumeClaim nope.", []string{
			"pod: VolumeRestrictions ClaimNotFound: the PersistentVolumeClaim nope does not exist",
			"pod: VolumeBinding ClaimNotFound: the PersistentVolumeClaim nope does not exist",
			"pod: VolumeZone ClaimNotFound: the PersistentVolumeClaim nope does not exist",
			"pod: NodeVolumeLimits ClaimNotFound: the PersistentVolumeClaim nope does not exist",
			"1 InsufficientResource: ",
		}},
		{"data", "The pod cannot be scheduled on any node: the PersistentVolumeClaim data is not bound.", "", []string{
			"pod: VolumeBinding ClaimUnbound: the PersistentVolumeClaim data is not bound",
			"pod: VolumeZone ClaimUnbound: the PersistentVolumeClaim data is not bound",
			"1 InsufficientResource: ",
		}},
	} {
		x := c.explain(explain.Pending{Pod: pod("p", "2", "1Gi", claiming(test.claim))})
		if diff := cmp.Diff(test.want, detailsOf(x)); diff != "" {
			t.Errorf("%s: %s", test.claim, diff)
		}
		if x.Verdict != v1alpha1.VerdictNeverFits || x.Message != test.message || x.Feasible != 0 {
			t.Errorf("%s: got %s: %s", test.claim, x.Verdict, x.Message)
		}
		var suggested []string
		for _, s := range x.Pending.Suggestions {
			suggested = append(suggested, s.Description)
			if s.Verified || s.Type != v1alpha1.SuggestionCreateClaim {
				t.Errorf("%s: got %+v", test.claim, s)
			}
		}
		if got := strings.Join(suggested, " "); got != test.suggest {
			t.Errorf("%s: got the suggestions %q, want %q", test.claim, got, test.suggest)
		}
	}
}

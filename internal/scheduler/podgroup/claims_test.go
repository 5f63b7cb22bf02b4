// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/utils/ptr"
)

// TestTheClaimsOfAGroup reads a PodGroup of each API version that has claims, and asks for it as
// the plugin for devices does.
func TestTheClaimsOfAGroup(t *testing.T) {
	for _, version := range []string{"v1", "v1beta1", "v1alpha2"} {
		group, err := FromKubernetes(&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": schedulingv1beta1.GroupName + "/" + version, "kind": "PodGroup",
			"metadata": map[string]any{"namespace": "ns", "name": "g", "uid": "1"},
			"spec": map[string]any{"resourceClaims": []any{
				map[string]any{"name": "a", "resourceClaimTemplateName": "template"}}},
			"status": map[string]any{"resourceClaimStatuses": []any{
				map[string]any{"name": "a", "resourceClaimName": "made"}}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		r := NewRegistry()
		r.SetGroup(group)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "2"}}
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("g")}
		r.SetAssumed(pod)

		object, err := Lister{r}.Get("ns", "g")
		if err != nil {
			t.Fatal(err)
		}
		name, owned, err := resourceclaim.NameFromPodGroup(object, &object.Spec.ResourceClaims[0])
		if err != nil || !owned || ptr.Deref(name, "") != "made" {
			t.Errorf("%s: the claim is %v, %v, %v", version, ptr.Deref(name, ""), owned, err)
		}
		for template, want := range map[string]string{"template": "podgroups g 1", "other": "pods p 2"} {
			to, err := resourceclaim.BindTo(pod, object, &corev1.PodResourceClaim{Name: "a",
				ResourceClaimTemplateName: ptr.To(template)})
			if got := to.Resource + " " + to.Name + " " + string(to.UID); err != nil || got != want {
				t.Errorf("%s: a claim from %q is reserved for %s, want %s (%v)", version, template, got, want, err)
			}
		}
		state, err := StateLister{r}.Get("ns", "g")
		if err != nil || state.ScheduledPodsCount() != 1 {
			t.Errorf("%s: got %v, %v, want one pod", version, state, err)
		}
	}
}

func TestAGroupThatDoesNotExistHasNoClaims(t *testing.T) {
	plugins := NewRegistry()
	plugins.SetGroup(Group{Key: Key{Source: SchedulerPlugins, Namespace: "ns", Name: "g"}})
	const want = "pod group ns/g does not exist"
	for _, r := range []*Registry{nil, plugins} {
		_, err := Lister{r}.Get("ns", "g")
		_, stateErr := StateLister{r}.Get("ns", "g")
		if diff := cmp.Diff([]string{want, want}, []string{err.Error(), stateErr.Error()}); diff != "" {
			t.Error(diff)
		}
	}
}

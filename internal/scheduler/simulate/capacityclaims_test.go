// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	kubefeatures "k8s.io/kubernetes/pkg/features"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/simulate"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/sidebyside"
)

func TestPodsWithClaimsOfTheirOwnAreCounted(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, kubefeatures.DRADeviceTaintRules,
		false) // otherwise the plugin does not read the slices that the test fills in
	c := newCluster(t, sidebyside.FastPath)
	class := objects.DeviceClass("gpu")
	class.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
		Expression: `device.driver == "gpu.example.com"`}}}
	c.must(c.objects.Put(class))
	for node, gpus := range map[string]int{"a": 3, "b": 2} {
		c.node(node, "z", "p")
		slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "slice-" + node},
			Spec: resourcev1.ResourceSliceSpec{Driver: "gpu.example.com", NodeName: ptr.To(node),
				Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1}}}
		for i := range gpus {
			slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: fmt.Sprint("gpu-", i)})
		}
		c.must(c.objects.Put(slice))
	}
	like := pod("train", 1, "1", "1Gi")
	like.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: ptr.To("one-gpu")}}
	template := v1alpha1.CapacityClaimTemplate{Name: "one-gpu", Spec: objects.DeviceClaim("", "gpu").Spec}
	question := &v1alpha1.Capacity{Metadata: metav1.ObjectMeta{Namespace: like.Namespace},
		Spec: v1alpha1.CapacitySpec{Pod: *like, Limit: 100,
			ResourceClaimTemplates: []v1alpha1.CapacityClaimTemplate{template}}}
	for members, want := range map[int32]int32{0: 5, 2: 4} {
		if members > 0 {
			question.Spec.PodGroup = &v1alpha1.CapacityPodGroup{MinMember: members}
		}
		request, err := simulate.ParseCapacity(question)
		c.must(err)
		got, err := simulate.Count(t.Context(), c.fork(), request)
		c.must(err)
		if got.Pods != want || got.Next == nil {
			t.Errorf("in groups of %d: got %+v, want %d pods", members, got, want)
			continue
		}
		const detail = "no free device of the DeviceClass gpu: 5 in use"
		if members == 0 && (len(got.Next.Groups) != 1 || got.Next.Groups[0].Refusals[0].Detail != detail) {
			t.Errorf("next: %+v", got.Next)
		}
		if members == 0 && got.Next.Verdict != v1alpha1.VerdictFitsWhenFreed {
			t.Errorf("next: got %s: %s", got.Next.Verdict, got.Next.Message)
		}
		question.Spec.PodGroup = nil
	}
	wrong := *template.Spec.DeepCopy()
	wrong.Devices.Requests[0].Exactly.Count = -1
	question.Spec.ResourceClaimTemplates = append(question.Spec.ResourceClaimTemplates, template,
		v1alpha1.CapacityClaimTemplate{}, v1alpha1.CapacityClaimTemplate{Name: "wrong", Spec: wrong})
	_, err := simulate.ParseCapacity(question)
	const want = `[spec.resourceClaimTemplates[1].name: Duplicate value: "one-gpu", ` +
		`spec.resourceClaimTemplates[2].name: Required value, ` +
		`spec.resourceClaimTemplates[3].spec.devices.requests[0].exactly.count: Invalid value: -1: ` +
		`must be greater than zero]`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

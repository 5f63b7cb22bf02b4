// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	kubefeatures "k8s.io/kubernetes/pkg/features"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/simulate"
	"github.com/livesched/livesched/test/objects"
	"github.com/livesched/livesched/test/sidebyside"
)

// newDeviceCluster returns a cluster with nodes with a number of GPUs each, and with claims.
func newDeviceCluster(t *testing.T, gpus map[string]int, claims ...*resourcev1.ResourceClaim) *cluster {
	t.Helper()
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, kubefeatures.DRADeviceTaintRules,
		false) // otherwise the plugin does not read the slices that the test fills in
	var listed []runtime.Object
	for _, claim := range claims {
		listed = append(listed, claim)
	}
	c := newClusterOf(t, sidebyside.FastPath, sidebyside.NewObjectsOf(listed...))
	class := objects.DeviceClass("gpu")
	class.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
		Expression: fmt.Sprintf("device.driver == %q", gpuDriver)}}}
	c.must(c.objects.Put(class))
	for node, n := range gpus {
		c.node(node, "z", "p")
		slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "slice-" + node},
			Spec: resourcev1.ResourceSliceSpec{Driver: gpuDriver, NodeName: ptr.To(node),
				Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1}}}
		for i := range n {
			slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: fmt.Sprint("gpu-", i)})
		}
		c.must(c.objects.Put(slice))
	}
	c.must(c.RunClaims(t.Context(), &c.objects, claims))
	return c
}

const gpuDriver = "gpu.example.com"

// claimOn returns a claim that has a device of a node, for some pods.
func claimOn(node string, device int, pods ...*corev1.Pod) *resourcev1.ResourceClaim {
	claim := objects.DeviceClaim(fmt.Sprintf("%s-%d", node, device), "gpu")
	claim.UID, claim.ResourceVersion = types.UID(claim.Name), "1"
	request := claim.Spec.Devices.Requests[0].Exactly
	request.AllocationMode, request.Count = resourcev1.DeviceAllocationModeExactCount, 1
	claim.Status.Allocation = &resourcev1.AllocationResult{
		Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{
			Request: "device", Driver: gpuDriver, Pool: node, Device: fmt.Sprint("gpu-", device)}}},
		NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField,
				Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}},
	}
	for _, pod := range pods {
		objects.UsingDevices(claim.Name)(pod)
		claim.Status.ReservedFor = append(claim.Status.ReservedFor,
			resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID})
	}
	return claim
}

// TestDevicesAreDecidedAnew: of the pods on a node that is removed, one gets the free device of
// another node. The other one shares a claim with a pod that is not decided.
func TestDevicesAreDecidedAnew(t *testing.T) {
	moving, sharing, staying := pod("moving", 1, "1", "1Gi"), pod("sharing", 2, "1", "1Gi"), pod("other", 3, "1", "1Gi")
	staying.Spec.SchedulerName = "theirs"
	c := newDeviceCluster(t, map[string]int{"a": 2, "b": 1},
		claimOn("a", 0, moving), claimOn("a", 1, sharing, staying))
	for _, pod := range []*corev1.Pod{moving, sharing} {
		c.run(pod, "a")
	}
	c.run(staying, "b")
	got, err := simulate.Run(t.Context(), c.fork(), simulate.Request{Pods: all(),
		Nodes: simulate.Nodes{Remove: []string{"a"}}})
	c.must(err)
	unplaced := got.Current.UnplacedPods
	if got.Pods != 2 || got.Current.Unplaced != 1 || len(unplaced) != 1 || unplaced[0].Name != sharing.Name {
		t.Errorf("got %+v", got)
	}
	if allocated, err := c.Devices.ResourceClaims().ListAllAllocatedDevices(); err != nil || allocated.Len() != 2 {
		t.Errorf("%v are allocated in the process (%v)", allocated, err)
	}
}

func TestPodsWithClaimsOfTheirOwnAreCounted(t *testing.T) {
	c := newDeviceCluster(t, map[string]int{"a": 3, "b": 2})
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

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/livesched/livesched/internal/scheduler/podfields"
)

// TestSameRequestInputs compares SameRequestInputs with the requests themselves: two pods that it
// considers equal must request the same.
func TestSameRequestInputs(t *testing.T) {
	for name, enabled := range map[string]bool{"with": true, "without": false} {
		t.Run(name+" resizing of pod-level resources", func(t *testing.T) {
			featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate,
				featuregatetesting.FeatureOverrides{
					features.InPlacePodVerticalScaling: true, features.InPlacePodLevelResourcesVerticalScaling: enabled,
				})
			testSameRequestInputs(t)
		})
	}
}

func testSameRequestInputs(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	same, differ := 0, 0
	for range 50_000 {
		a := randomRequests(random)
		b := randomRequests(random)
		if !podfields.SameRequestInputs(a, b) {
			differ++
			continue
		}
		same++
		requestedByA := (&schedframework.PodInfo{Pod: a}).CalculateResource()
		requestedByB := (&schedframework.PodInfo{Pod: b}).CalculateResource()
		if !sameResources(requestedByA, requestedByB) {
			t.Fatalf("taken for the same:\n%v\n%v\nbut request %v and %v", a, b, requestedByA.Resource,
				requestedByB.Resource)
		}
	}
	if same < 1000 || differ < 1000 {
		t.Errorf("only %d pairs are the same and %d differ", same, differ)
	}
}

// randomRequests makes a pod with few possible values, so that two of them are often equal.
func randomRequests(random *rand.Rand) *corev1.Pod {
	one := func() corev1.ResourceRequirements {
		return requests([]string{"100m", "200m"}[random.IntN(8)/7], "1Mi")
	}
	maybe := func() *corev1.ResourceRequirements {
		if random.IntN(4) > 0 {
			return nil
		}
		return ptr.To(one())
	}
	pod := newPod("p", "a")
	pod.Spec.Containers[0].Resources = one()
	status := corev1.ContainerStatus{Name: "c", Resources: maybe()}
	if random.IntN(3) == 0 {
		status.AllocatedResources = one().Requests
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{status}
	if random.IntN(4) == 0 {
		init := corev1.Container{Name: "i", Resources: one()}
		if random.IntN(2) == 0 {
			init.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = []corev1.Container{init}
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "i", Resources: maybe()}}
	}
	if random.IntN(8) == 0 {
		pod.Spec.Overhead = one().Requests
	}
	if random.IntN(4) == 0 {
		pod.Spec.Resources = ptr.To(one())
	}
	if random.IntN(3) == 0 { // kubelets report the sums of the containers, too
		pod.Status.Resources = maybe()
		if random.IntN(2) == 0 {
			pod.Status.AllocatedResources = one().Requests
		}
	}
	if random.IntN(4) == 0 {
		pod.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible}}
	}
	return pod
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package devices_test

import (
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"
	schedframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/livesched/livesched/internal/scheduler/devices"
)

// taking returns a pod with claims that take from a node.
func taking(claims ...string) *corev1.Pod {
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "node"}}
	for _, claim := range claims {
		pod.Status.NodeAllocatableResourceClaimStatuses = append(pod.Status.NodeAllocatableResourceClaimStatuses,
			corev1.NodeAllocatableResourceClaimStatus{ResourceClaimName: claim})
	}
	return pod
}

func TestTakeFromNodeReplacesWhatAnEarlierAttemptLeft(t *testing.T) {
	for _, test := range []struct {
		name string
		gate bool
		want int
	}{
		{"with the feature gate", true, 0},
		{"without it, the status is not read either", false, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate,
				features.DRANodeAllocatableResources, test.gate)
			pod := taking("stale")
			if devices.TakeFromNode(logr.Discard(), schedframework.NewCycleState(), pod) {
				t.Error("devices take something, but no plugin has chosen any")
			}
			if got := len(pod.Status.NodeAllocatableResourceClaimStatuses); got != test.want {
				t.Errorf("%d claims take from the node, want %d", got, test.want)
			}
		})
	}
}

func TestUnwritten(t *testing.T) {
	for _, test := range []struct {
		name        string
		pod, before *corev1.Pod
		want        int
	}{
		{"nothing is taken", taking(), taking(), 0},
		{"the API server does not have what is taken", taking("a"), taking(), 0},
		{"the API server has what an earlier attempt left", taking("a"), taking("stale"), 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			took := len(test.pod.Status.NodeAllocatableResourceClaimStatuses)
			seen := devices.Unwritten(test.pod, test.before)
			if got := len(seen.Status.NodeAllocatableResourceClaimStatuses); got != test.want {
				t.Errorf("Unreserve sees %d claims that take from the node, want %d", got, test.want)
			}
			if seen.Spec.NodeName != "node" || len(test.pod.Status.NodeAllocatableResourceClaimStatuses) != took {
				t.Error("the pod that is on the node has changed")
			}
		})
	}
}

// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"math/rand/v2"
	"testing"

	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
)

// TestFreed compares nodes without their pods of a lower priority with nodes that never had them.
func TestFreed(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 3))
		node, want := nodeWith(resources(8, 8, 8, 10)), nodeWith(resources(8, 8, 8, 10))
		for range random.IntN(8) {
			pod := podWith(t, resources(random.IntN(3), random.IntN(3), random.IntN(3), 0))
			priority := int32(random.IntN(3))
			pod.Pod.Spec.Priority = &priority
			node.AddPodInfo(pod)
			if priority >= 1 {
				want.AddPodInfo(pod)
			}
		}
		before := node.Requested.MilliCPU
		got := Freed(node, 1, corev1helpers.PodPriority)
		requested, wanted := got.GetRequested(), want.GetRequested()
		if requested.GetMilliCPU() != wanted.GetMilliCPU() || requested.GetMemory() != wanted.GetMemory() ||
			requested.GetScalarResources()[gpu] != wanted.GetScalarResources()[gpu] ||
			len(got.GetPods()) != len(want.GetPods()) {
			t.Errorf("seed %d: got %+v with %d pods, want %+v with %d", seed, requested, len(got.GetPods()), wanted,
				len(want.GetPods()))
		}
		if Current(got) != fwk.NodeInfo(node) {
			t.Errorf("seed %d: the node as it is is another one", seed)
		}
		if node.Requested.MilliCPU != before {
			t.Errorf("seed %d: the node was changed", seed)
		}
	}
}
